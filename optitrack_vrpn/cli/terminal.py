# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Format tables for a terminal."""

from collections.abc import Collection, Sequence


def format_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str] = (),
    width: int = 0, dispensable: Sequence[str] = (),
) -> list[str]:
    """
    Format rows below a head and a rule.

    :param head: names of the columns.
    :param rows: cells of each row.
    :param left: columns that are aligned at the left.
    :param width: columns of the terminal; 0 for no limit.
    :param dispensable: columns in the order in which they are left out on a narrow terminal.
    :returns: lines without colours; wider than the terminal if the other columns are.
    """
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    kept = list(range(len(head)))
    for name in dispensable:
        if width and sum(widths[i] + 2 for i in kept) - 2 > width:
            kept.remove(head.index(name))
    lines = ['  '.join(
        row[i].ljust(widths[i]) if head[i] in left else row[i].rjust(widths[i])
        for i in kept).rstrip() for row in cells]
    lines.insert(1, '  '.join('-' * widths[i] for i in kept))
    return lines
