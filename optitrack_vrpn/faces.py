# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Packages that import the file of a public name when the name is first used.

ROS and numpy load slowly, and most users of a package need a part of it. The ``__init__.py`` of a
package lists its public names once, as imports for type checkers::

    if TYPE_CHECKING:
        from optitrack_vrpn.bodies.validity import ValidityGate
    else:
        __all__, __getattr__ = lazy(globals())
"""

from collections.abc import Callable
from importlib import import_module
import re
from typing import Any

_IMPORT = re.compile(r'^    from (\S+) import (?:\(([^)]*)\)|(.*))$', re.MULTILINE)


def lazy(module: dict[str, Any]) -> tuple[list[str], Callable[[str], Any]]:
    """
    Make the public names of a package from the imports in its ``__init__.py``.

    :param module: its ``globals()``.
    :returns: its ``__all__`` and its ``__getattr__`` (PEP 562).
    """
    package = module['__name__']
    source = module['__spec__'].loader.get_source(package)
    homes = {name.strip(): file
             for file, several, one in _IMPORT.findall(source)
             for name in (several or one).split(',')}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f'module {package!r} has no attribute {name!r}')
        value = getattr(import_module(homes[name]), name)
        module[name] = value    # the next time without this function
        return value

    return list(homes), get
