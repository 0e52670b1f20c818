# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Load ROS messages without the generator of message classes.

Each message package imports ``rosidl_generator_py`` for one function that loads a C library. That
package also imports its generator, with a parser of interface files and lark: more than a tenth of
a node's start and 5 MB. It works without the generator, as where lark is not installed.
"""

import importlib
import importlib.util
import sys

_PACKAGE = 'rosidl_generator_py'
_GENERATOR = f'{_PACKAGE}.generate_py_impl'


def leave_generator_out() -> bool:
    """
    Import ``rosidl_generator_py`` without its generator; call it before messages are imported.

    The generator can still be imported from its own module. Where the package is already imported,
    missing or of another form, nothing is changed.

    :returns: whether it is imported without the generator.
    """
    if _PACKAGE in sys.modules or importlib.util.find_spec(_PACKAGE) is None:
        return False
    # An entry of None makes the import raise ImportError, which the package catches.
    sys.modules[_GENERATOR] = None    # type: ignore[assignment]
    try:
        package = importlib.import_module(_PACKAGE)
        if hasattr(package, 'import_type_support'):
            return True
    except ImportError:
        pass
    finally:
        del sys.modules[_GENERATOR]
    sys.modules.pop(_PACKAGE, None)    # of another form: imported again as it is
    return False
