# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Compile the modules with mypyc, into a folder that ``importer_io`` finds.

setup.py, ``make env`` and ``python -m optitrack_vrpn compile`` use it. The sources are copied
first, and hashed from the copy: an edit in the meantime cannot be taken for what was compiled.
"""

from collections.abc import Sequence
import importlib.util
import os
from pathlib import Path
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from optitrack_vrpn.cli.compiled.importer_io import name_for, PACKAGE, SUFFIX, wanted
from optitrack_vrpn.cli.compiled.modules import MODULES, SWITCH
from optitrack_vrpn.core.errors import BackendUnavailableError

#: Folders of other sources that are kept: other checkouts use the same environment. Chosen; each
#: has some 5 MB.
_KEPT = 8
# What setuptools compiles; lists and paths are given by the environment of this process.
_SETUP = """
import sys
from setuptools import setup
from mypyc.build import mypycify
setup(name='optitrack_vrpn_compiled', packages=[], ext_modules=mypycify(
    ['--config-file=mypyc.ini', *sys.argv[1].split(',')], opt_level='3', debug_level='0',
    multi_file=True), script_args=['-q', 'build_ext', '-j', sys.argv[2], '--build-lib', 'out'])
"""
_MYPY = """
[mypy]
ignore_missing_imports = True
follow_imports = silent
[mypy-rclpy.*,tf2_ros.*]
follow_imports = skip
"""


def obstacle() -> str:
    """Say what prevents compiling here; '' if nothing does."""
    if not wanted():
        return f'switched off by {SWITCH}'
    if importlib.util.find_spec('mypyc') is None:
        return 'mypy is not installed (rosdep key python3-mypy)'
    if importlib.util.find_spec('setuptools') is None:
        return 'setuptools is not installed'
    compiler = (sysconfig.get_config_var('CC') or 'cc').split()[0]
    if shutil.which(compiler) is None:
        return f'the C compiler {compiler} is not installed'
    header = Path(sysconfig.get_path('include')) / 'Python.h'
    return '' if header.is_file() else f'{header} is missing (package python3-dev)'


def is_current(place: Path, package: Path = PACKAGE) -> bool:
    """Return whether a place holds what compiling would make."""
    return (place / name_for(package)).is_dir()


def build(
    place: Path, package: Path = PACKAGE, modules: Sequence[str] = MODULES,
) -> Path:
    """
    Compile, unless the same sources have been compiled into that place.

    :param place: the folder that gets a folder of these sources.
    :param package: the folder of the package.
    :param modules: what is compiled.
    :returns: the folder of the compiled modules.
    :raises BackendUnavailableError: if mypyc or the compiler is missing or fails.
    """
    if is_current(place, package):
        return place / name_for(package)
    missing = obstacle()
    if missing:
        raise BackendUnavailableError(f'not compiled: {missing}')
    with tempfile.TemporaryDirectory(prefix='optitrack_vrpn_compile_') as folder:
        work = Path(folder)
        copy = work / package.name
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns('__pycache__', '_compiled'))
        name = name_for(copy)
        (work / 'mypyc.ini').write_text(_MYPY)
        files = ','.join(module.replace('.', '/') + '.py' for module in modules)
        run = subprocess.run(
            [sys.executable, '-c', _SETUP, files, str(os.cpu_count() or 1)], cwd=work,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            # mypy must take the copy, wherever else the package is found.
            env={**os.environ, SWITCH: '0', 'PYTHONPATH': str(work), 'MYPYPATH': ''})
        made = work / 'out'
        if run.returncode or not list(made.glob(f'*__mypyc{SUFFIX}')):
            last = [line for line in run.stdout.splitlines() if line.strip()][-15:]
            raise BackendUnavailableError('not compiled: mypyc failed:\n' + '\n'.join(last))
        place.mkdir(parents=True, exist_ok=True)
        # Whole or not at all, beside a process that compiles the same.
        half = Path(tempfile.mkdtemp(prefix='.half-', dir=place))
        half.chmod(0o755)
        shutil.copytree(made, half, dirs_exist_ok=True)
        try:
            half.rename(place / name)
        except OSError:
            shutil.rmtree(half)
            if not (place / name).is_dir():
                raise
    _forget_old(place, name)
    return place / name


def _forget_old(place: Path, name: str) -> None:
    """Remove the folders that were made longest ago, and halves of killed runs."""
    others = sorted((path for path in place.iterdir() if path.is_dir() and path.name != name),
                    key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
