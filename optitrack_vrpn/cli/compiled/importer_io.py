# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Import the compiled form of modules where one was made of exactly these sources.

``activate`` is called when the package is imported, before any of its modules. It looks for the
folder that ``modules.folder_name`` names and puts a finder for it before Python's own; where there
is none, modules are imported as Python, as ever. Folders are looked for beside the package (put
there by setup.py), in the virtual environment, and in the user's cache.
"""

from collections.abc import Iterator, Sequence
import importlib
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
import importlib.util
import os
from pathlib import Path
import sys
from types import ModuleType
from typing import NamedTuple, Optional

from optitrack_vrpn.cli.compiled.modules import folder_name, MODULES, OFF, SOURCES, SWITCH

PACKAGE = Path(__file__).resolve().parents[2]
#: Folder beside the package's modules that setup.py fills.
INSTALLED = '_compiled'
#: Suffix of extension modules that names version and binary interface of this interpreter.
SUFFIX = EXTENSION_SUFFIXES[0]


class Mode(NamedTuple):
    """Whether this process runs the path of a pose compiled, and why not."""

    compiled: bool
    reason: str

    @property
    def text(self) -> str:
        """Describe it in a few words."""
        return 'compiled' if self.compiled else f'as plain Python: {self.reason}'


class _Finder:
    """
    Find compiled modules in one folder; all other modules are left to the next finder.

    A finder needs no base class, and that of ``importlib.abc`` takes long to import.
    """

    def __init__(self, folder: Path, shared: str) -> None:
        self._paths = {name: folder / (name.replace('.', os.sep) + SUFFIX)
                       for name in (*MODULES, shared)}

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None,
    ) -> Optional[ModuleSpec]:
        """Return the spec of a compiled module."""
        found = self._paths.get(name)
        if found is None:
            return None
        return importlib.util.spec_from_file_location(
            name, found, loader=ExtensionFileLoader(name, str(found)))


def wanted() -> bool:
    """Return whether the environment allows compiled modules."""
    return os.environ.get(SWITCH, '1').strip().lower() not in OFF


def source_files(package: Path) -> Iterator[tuple[str, bytes]]:
    """Read every file that decides, by its path within the package."""
    for name in SOURCES:
        place = package / name
        for path in ([place] if name.endswith('.py') else place.rglob('*.py')):
            yield path.relative_to(package).as_posix(), path.read_bytes()


def name_for(package: Path) -> str:
    """Name the folder of the compiled form of a package."""
    return folder_name(source_files(package), SUFFIX.strip('.').rpartition('.')[0])


def build_folder() -> Path:
    """Choose where compiled modules are put that setup.py does not install."""
    # colcon build --symlink-install runs setup.py with another prefix, and keeps this one.
    prefix = getattr(sys, 'real_prefix', sys.prefix)
    if prefix != sys.base_prefix:
        return Path(prefix) / 'share' / 'optitrack_vrpn' / 'compiled'
    cache = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    return Path(cache) / 'optitrack_vrpn' / 'compiled'


def _trusted(folder: Path) -> bool:
    """Return whether only this user or root can have put modules there."""
    try:
        facts = folder.stat()
    except OSError:
        return False
    return facts.st_uid in (0, os.geteuid()) and not facts.st_mode & 0o002


def _activate() -> Mode:
    if not wanted():
        return Mode(False, f'switched off by {SWITCH}')
    places = (PACKAGE / INSTALLED, build_folder())
    present = [place for place in places if place.is_dir()]
    if not present:
        return Mode(False, 'no compiled modules (make env or colcon build makes them)')
    try:
        name = name_for(PACKAGE)
    except OSError as error:
        return Mode(False, f'sources cannot be read ({error})')
    for place in present:
        folder = place / name
        if not _trusted(folder):
            continue
        shared = [path.name.removesuffix(SUFFIX) for path in folder.glob(f'*__mypyc{SUFFIX}')]
        if len(shared) != 1:
            continue
        finder = _Finder(folder, shared[0])
        sys.meta_path.insert(0, finder)
        try:
            importlib.import_module(shared[0])
        except ImportError as error:
            sys.meta_path.remove(finder)
            return Mode(False, f'compiled modules cannot be loaded ({error})')
        return Mode(True, '')
    return Mode(False, 'the compiled modules are of other sources (make env or colcon build '
                'compiles these)')


MODE = _activate()
