# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find misspelt arguments of a launch file, which launch itself ignores."""

from collections.abc import Sequence
import difflib

_ASSIGN = ':='


def check_launch_arguments(
    command_line: Sequence[str], files: Sequence[str], declared: Sequence[str],
) -> None:
    """
    Refuse arguments of the command line that a launch file does not declare.

    A launch file that another one includes is not checked: the command line then holds the
    arguments of the other file.

    :param command_line: as of ``sys.argv``: ``... FILE name:=value ...``.
    :param files: names of the launch file; it is checked if the command line names one of them.
    :param declared: names of the arguments that it declares.
    :raises ValueError: naming each unknown argument and the closest valid name.
    """
    if not any(word.rsplit('/', 1)[-1] in files for word in command_line):
        return
    given = [word.split(_ASSIGN, 1)[0] for word in command_line if _ASSIGN in word]
    unknown = [name for name in dict.fromkeys(given) if name not in declared]
    if not unknown:
        return
    lines = []
    for name in unknown:
        near = difflib.get_close_matches(name, declared, 1)
        hint = f'; did you mean {near[0]}:=?' if near else ''
        lines.append(f'{name}:= is not an argument of this launch file{hint}')
    raise ValueError('. '.join(lines) + f' (arguments: {", ".join(declared)})')
