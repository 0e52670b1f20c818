# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The launch files: their arguments, the processes they start, and the real demo.

PyPI does not have ROS 2's launch (its ``launch`` is another program), so that most of this runs
where a ROS 2 installation is sourced. The programs that launch starts are stand-ins that write
down their command lines, but for the demo, which runs as users run it.
"""

import json
import os
from pathlib import Path
import re
import signal
import subprocess
import sys

from conftest import children_of
from optitrack_vrpn.cli.arguments import check_launch_arguments
import pytest
from server_kit import free_port
import yaml

ROOT = Path(__file__).resolve().parent.parent
LAUNCH = ROOT / 'launch'
NODE = LAUNCH / 'optitrack_vrpn.launch.py'
NODE_YAML = LAUNCH / 'optitrack_vrpn.launch.yaml'
DEMO = LAUNCH / 'demo.launch.py'
TOOLS = ('optitrack_vrpn_node', 'motive_sim', 'demo')


def why_not():
    """Say what is missing of ROS 2's launch; empty where it is there."""
    try:
        from launch import LaunchDescription, LaunchService  # noqa: F401
        import launch_ros.actions  # noqa: F401
        import launch_xml  # noqa: F401
        import launch_yaml  # noqa: F401
    except Exception as error:    # somebody else's package of this name may raise anything
        return f"ROS 2's launch is not here, and PyPI does not have it: {error!r}"
    return ''


with_launch = pytest.mark.skipif(bool(why_not()), reason=why_not())

#: What `ros2 launch FILE ARGUMENTS` does.
DRIVER = """
import sys
from launch import LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import AnyLaunchDescriptionSource
service = LaunchService(argv=sys.argv[2:])
service.include_launch_description(IncludeLaunchDescription(
    AnyLaunchDescriptionSource(sys.argv[1]),
    launch_arguments=[tuple(argument.split(':=', 1)) for argument in sys.argv[2:]]))
sys.exit(service.run())
"""

#: A program that only writes down how it was called.
STAND_IN = """#!{python}
import json, os, sys
files = [sys.argv[i + 1] for i, word in enumerate(sys.argv) if word in ('--params-file', '-d')]
line = json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:],
                   [open(name).read() for name in files]]) + '\\n'
# At once: others write there too, and somebody reads meanwhile.
os.write(os.open({calls!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT), line.encode())
"""

REAL = """#!{python}
import sys
sys.path.insert(0, {root!r})
sys.argv.insert(1, {tool!r})
from optitrack_vrpn.__main__ import main
sys.exit(main())
"""


class Prefix:
    """
    An installation of this package as launch looks for it, with programs of the test's choice.

    :param folder: an empty folder.
    :param program: text of each program.
    """

    def __init__(self, folder, program):
        self.folder = folder
        self.calls_path = folder / 'calls'
        self._program = program
        share = self.add_package('optitrack_vrpn', TOOLS)
        for name in ('launch', 'config', 'package.xml'):
            (share / name).symlink_to(ROOT / name)
        self.environment = dict(
            os.environ, RCUTILS_COLORIZED_OUTPUT='0', AMENT_PREFIX_PATH=os.pathsep.join(
                filter(None, [str(folder), os.environ.get('AMENT_PREFIX_PATH')])))

    def add_package(self, name, programs):
        """Register a package; gives its share folder."""
        index = self.folder / 'share/ament_index/resource_index/packages'
        share = self.folder / 'share' / name
        lib = self.folder / 'lib' / name
        for path in (index, share, lib):
            path.mkdir(parents=True, exist_ok=True)
        (index / name).touch()
        for program in programs:
            (lib / program).write_text(self._program.format(
                python=sys.executable, calls=str(self.calls_path), root=str(ROOT), tool=program))
            (lib / program).chmod(0o755)
        return share

    def start(self, file, *arguments):
        """Begin a launch in its own process group, as a terminal would."""
        return subprocess.Popen(
            [sys.executable, '-c', DRIVER, str(file), *arguments], env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def launch(self, file, *arguments):
        """Launch until all programs have ended; gives (exit code, output)."""
        once = ['respawn:=false'] if 'respawn' in Path(file).read_text() and (
            Path(file).parent == ROOT / 'launch') else []
        process = self.start(file, *once, *arguments)
        try:
            output, _ = process.communicate(timeout=60)
        finally:
            kill_group(process)
        return process.returncode, output

    def run(self, file, *arguments):
        """Launch with success; gives the calls."""
        code, output = self.launch(file, *arguments)
        assert code == 0, output
        return self.calls()

    def calls(self):
        """Give (program, arguments, contents of parameter files and displays) of each call."""
        if not self.calls_path.exists():
            return []
        return [json.loads(line) for line in self.calls_path.read_text().splitlines()]


def kill_group(process):
    """Leave nothing behind, whatever became of the launch."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    process.stdout.close()


@pytest.fixture
def prefix(tmp_path):
    return Prefix(tmp_path, STAND_IN)


def parameters_of(call):
    """Give the parameters of a call, later files over earlier ones, as ROS reads them."""
    found = {}
    for text in call[2]:
        for values in yaml.safe_load(text).values():
            found.update(values['ros__parameters'])
    return found


# -- with ROS 2's launch -----------------------------------------------------------------------

@with_launch
@pytest.mark.parametrize('path', [NODE, NODE_YAML], ids=lambda path: path.name)
def test_defaults_start_one_node_on_the_package_s_parameters_and_make_it_active(path, prefix):
    call, = prefix.run(path)
    assert call[0] == 'optitrack_vrpn_node'
    assert '__node:=optitrack_vrpn' in call[1] and '__ns:=/' in call[1]
    assert parameters_of(call) == {'autostart': True, 'activate': True}, 'the rest by default'


@with_launch
@pytest.mark.parametrize('path', [NODE, NODE_YAML], ids=lambda path: path.name)
def test_every_argument_arrives(path, prefix, tmp_path):
    mine = tmp_path / 'mine.yaml'
    mine.write_text('/**: {ros__parameters: {server: elsewhere, port: 1, up_axis: z}}\n')
    call, = prefix.run(
        path, 'server:=10.1', 'port:=3900', 'protocol:=auto', f'params_file:={mine}',
        'namespace:=lab/east', 'name:=mocap', 'autostart:=False', 'activate:=false',
        'log_level:=warn')
    arguments = ' '.join(call[1])
    assert '__node:=mocap' in arguments and '__ns:=/lab/east' in arguments
    assert '--log-level warn' in arguments
    # a server that looks like a number is still a name
    assert parameters_of(call) == {'server': '10.1', 'port': 3900, 'protocol': 'auto',
                                   'up_axis': 'z', 'autostart': False, 'activate': False}


TRUE_OR_FALSE = 'is not allowed; allowed: true, false'


@with_launch
@pytest.mark.parametrize('file, argument, complaint', [
    (NODE, 'port:=abc', "port:='abc' is not allowed"),
    (NODE, 'activate:=perhaps', f"activate:='perhaps' {TRUE_OR_FALSE}"),
    *((file, 'rviz:=perhaps', f"rviz:='perhaps' {TRUE_OR_FALSE}") for file in (NODE, DEMO)),
    (DEMO, 'bodies:=0', 'bodies:='),
    (DEMO, 'namespace:=demo2', 'namespace:= is not an argument of this launch file'),
    (NODE, 'params_file:=absent.yaml', 'params_file:=absent.yaml does not')],
    ids=lambda value: getattr(value, 'name', None))
def test_a_wrong_argument_is_named_and_nothing_runs(file, argument, complaint, prefix):
    """Launch does not end what ran already when a later action cannot be made."""
    code, output = prefix.launch(file, argument)
    assert code != 0 and complaint in output
    assert 'Traceback' not in output
    assert prefix.calls() == []


@with_launch
def test_the_launched_demo_is_the_command(prefix):
    call, = prefix.run(DEMO, 'rviz:=true', 'bodies:=2')
    assert call[0] == 'demo' and call[1][:6] == [
        '--seconds', '1e9', '--bodies', '2', '--rate', '240.0']
    assert '--rviz' in call[1] and '--web' not in call[1]


@with_launch
def test_rviz_shows_the_package_s_display(prefix):
    prefix.add_package('rviz2', ['rviz2'])
    calls = {call[0]: call[1] for call in prefix.run(NODE, 'rviz:=true')}
    assert set(calls) == {'optitrack_vrpn_node', 'rviz2'}
    assert calls['rviz2'][0] == '-d'
    assert Path(calls['rviz2'][1]).samefile(ROOT / 'config/optitrack_vrpn.rviz')


@with_launch
@pytest.mark.ros
@pytest.mark.slow
def test_a_node_that_is_killed_is_there_again_and_active(tmp_path):
    from rosgraph import Observer, wait_until
    real = Prefix(tmp_path, REAL)
    process = real.start(NODE, 'server:=127.0.0.1', f'port:={free_port()}')
    try:
        with Observer() as observer:
            first, = wait_until(lambda: children_of(process.pid), 60.0, 'the node')
            wait_until(lambda: observer.state() == 'active', 60.0, 'autostart')
            os.kill(first, signal.SIGKILL)
            # launch waits a while before it starts the next one
            second, = wait_until(
                lambda: [pid for pid in children_of(process.pid) if pid != first], 60.0,
                'the next node')
            assert Path(f'/proc/{second}').exists()
            wait_until(lambda: observer.state() == 'active', 60.0, 'autostart of the next node')
            assert children_of(process.pid) == [second]
    finally:
        kill_group(process)


@with_launch
@pytest.mark.ros
@pytest.mark.network
@pytest.mark.slow
def test_demo_streams_every_body_and_ends_on_ctrl_c(tmp_path):
    from rosgraph import Observer, wait_until
    demo = Prefix(tmp_path, REAL)
    process = demo.start(DEMO, 'bodies:=2', 'rate:=100')
    try:
        said = ''
        while 'ROS_DOMAIN_ID=' not in said:
            said = process.stdout.readline()
            assert said, 'the demo has ended'
        domain = int(re.search(r'ROS_DOMAIN_ID=(\d+)', said)[1])
        assert domain != int(os.environ['ROS_DOMAIN_ID'])
        with Observer('observer', domain) as observer:
            topics = [observer.poses(f'/Demo_Body_{number}/pose') for number in (1, 2)]
            wait_until(lambda: min(map(len, topics)) >= 100, 60.0, 'streaming')
        # a terminal tells the whole group, and launch tells its programs once more
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    except AssertionError as error:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f'{error}; launch said:\n{process.communicate()[0]}') from None
    finally:
        kill_group(process)
    assert process.returncode == 0, output
    assert 'Traceback' not in output and 'process has died' not in output
    assert output.count('has finished cleanly') == 1


# -- misspelt arguments ------------------------------------------------------------------------

def checked(*arguments):
    check_launch_arguments(
        ['ros2', 'launch', 'optitrack_vrpn', *arguments], '/share/a.launch.py',
        ('server', 'port', 'activate'))


def test_a_misspelt_launch_argument_is_refused_with_the_closest_name():
    with pytest.raises(ValueError, match=r'sever:= is not.*mean server:=\?'):
        checked('a.launch.py', 'sever:=1.2.3.4', 'port:=1')
    with pytest.raises(ValueError, match=r'zzz:= is not .*\(arguments: server, port, activate\)'):
        checked('/path/to/a.launch.py', 'zzz:=1')


def test_right_launch_arguments_and_those_of_an_outer_file_are_accepted():
    checked('a.launch.py', 'server:=1.2.3.4', '--debug')
    checked('outer.launch.py', 'sever:=1.2.3.4')
