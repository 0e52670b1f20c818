# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Install Python packages with uv, which takes a fraction of pip's time.

pip installs uv into a folder of the environment, which is removed at the end. uv does not read
pip's configuration, so this module translates it. If uv has no equivalent of a setting, or if uv
fails, pip installs the packages.
"""

import os
import shutil
import subprocess

import environment

UV = 'uv==0.13.9'
# Options of pip to those of uv. The values of the first kind are lists, separated by blanks.
LISTS = {'extra-index-url': '--index', 'find-links': '--find-links',
         'trusted-host': '--allow-insecure-host', 'constraint': '--constraint'}
SINGLE = {'index-url': '--default-index'}
SWITCHES = {'no-index': '--no-index'}
VARIABLES = {'cert': 'SSL_CERT_FILE', 'proxy': 'ALL_PROXY', 'timeout': 'UV_HTTP_TIMEOUT',
             'default-timeout': 'UV_HTTP_TIMEOUT'}
HARMLESS = {'disable-pip-version-check', 'quiet', 'verbose', 'no-input', 'cache-dir',
            'no-cache-dir', 'progress-bar', 'no-color', 'retries', 'user',
            'no-warn-script-location', 'root-user-action', 'break-system-packages',
            'require-virtualenv'}


def translated(listing):
    """
    Translate pip's configuration.

    :param listing: what `pip config list` prints: `global.index-url='https://...'`, later lines
        over earlier ones
    :returns: options and variables for uv, or None if uv has no equivalent
    """
    settings = {}
    for line in listing.splitlines():
        name, _, value = line.partition('=')
        section, _, key = name.rpartition('.')
        if section in ('global', 'install', ':env:') and value:
            settings[key.replace('_', '-')] = value.strip().strip('\'"').replace('\\n', ' ')
    options, variables = [], {}
    for key, value in settings.items():
        if key in LISTS:
            for item in value.split():
                options += [LISTS[key], item]
        elif key in SINGLE:
            options += [SINGLE[key], value]
        elif key in SWITCHES:
            options += [SWITCHES[key]] * (value.lower() in ('1', 'true', 'yes', 'on'))
        elif key in VARIABLES:
            variables[VARIABLES[key]] = value
        elif key not in HARMLESS:
            return None
    return options, variables


class Uv:
    """
    The uv of an environment.

    :param env: the :class:`environment.Environment`
    """

    def __init__(self, env):
        self._env = env
        self._folder = os.path.join(env.folder, 'installer')
        self._uv = os.path.join(self._folder, 'bin', 'uv')
        self._found = None

    def fetch(self):
        """
        Make uv ready, if it can be used here.

        :returns: the options and variables for it, or None
        """
        if self._found is not None:
            return self._found or None
        self._found = ()
        if os.environ.get('OPTITRACK_VRPN_INSTALLER') == 'pip':
            return None
        listing = subprocess.run(
            [self._env.python, '-m', 'pip', 'config', 'list'], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, universal_newlines=True)
        how = translated(listing.stdout) if listing.returncode == 0 else None
        if how is None:
            return None
        try:
            if not os.path.exists(self._uv):
                self._env.run('installer', [
                    self._env.python, '-m', 'pip', 'install', '--quiet', '--retries', '1',
                    '--disable-pip-version-check', '--target', self._folder, UV])
        except environment.EnvironmentFailure:
            return None
        self._found = how
        return how

    def install(self, stage, arguments):
        """
        Install packages.

        :returns: whether it succeeded; otherwise pip installs them
        """
        how = self.fetch()
        if not how:
            return False
        options, variables = how
        try:
            # Hard links need the cache on the file system of the environment.
            self._env.run(stage, [
                self._uv, 'pip', 'install', '--python', self._env.python, '--no-config',
                # The same choice among several indexes as pip.
                '--index-strategy', 'unsafe-best-match', *options, *arguments], shown=True,
                env=dict(os.environ, UV_CACHE_DIR=os.path.join(self._folder, 'cache'),
                         **variables))
            return True
        except environment.EnvironmentFailure:
            environment.say('uv failed ({}/log/{}.log): trying pip'.format(self._env.name, stage))
            self._found = ()
            return False

    def remove(self):
        """Remove uv and its cache, whose files the environment keeps."""
        shutil.rmtree(self._folder, ignore_errors=True)
