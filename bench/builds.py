# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which form of the package a process runs: `make bench` finds the compiled one first."""

from collections.abc import Mapping
import os
from pathlib import Path
import sys

ROOT = Path(__file__).resolve().parent.parent
#: Where tools/installed.py puts the package with its extension modules.
SITE = (Path(sys.prefix) / 'installed' / 'lib' / 'python{}.{}'.format(*sys.version_info)
        / 'site-packages')


def variables_of(
    checkout: Path, plain: bool, variables: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """
    Return the variables of a process that runs a checkout's sources or the installed package.

    :param plain: run the sources as Python.
    """
    old = variables.get('PYTHONPATH', '').split(os.pathsep)
    path = [str(checkout), *(part for part in old if part and part != str(SITE))]
    if not plain:
        if not SITE.is_dir():
            raise SystemExit('start this by: tools/env.py run --installed (it compiles)')
        path.insert(0, str(SITE))
    # Older checkouts look for compiled modules by this variable.
    return {**variables, 'PYTHONPATH': os.pathsep.join(path),
            'OPTITRACK_VRPN_COMPILE': '0' if plain else '1'}
