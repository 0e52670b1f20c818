# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Words of findings: names from the network, shares, sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optitrack_vrpn.names import printable

#: Names in one text, and characters of each: the longest name in VRPN.
_MOST_NAMED, _LONGEST_NAME = 6, 100


def listed(names: Sequence[str], most: int = _MOST_NAMED, longest: int = 48) -> str:
    """List names from the network, as many as fit a line."""
    shown = ', '.join(repr(printable(name, longest)) for name in names[:most])
    rest = len(names) - most
    return f'{shown} and {rest} more' if rest > 0 else shown


def subject(names: Sequence[str]) -> str:
    """Write bodies as the subject of a sentence."""
    return listed(names, 4, _LONGEST_NAME)


def percent(share: float) -> str:
    """Write a share, with a digit more where it is small."""
    return f'{share:.1%}' if share < 0.1 else f'{share:.0%}'


def silence(count: int, longest_s: float, share: float) -> str:
    """Describe silences, of which there is at least one."""
    if count == 1:
        return f'{longest_s:.2f} s'
    return f'up to {longest_s:.2f} s at a time, {count} times, {percent(share)} of the time'


def join_sentences(texts: Iterable[str]) -> str:
    """Join remedies into sentences, each once."""
    first, *others = dict.fromkeys(texts)
    result = first
    for text in others:
        dot = '' if result.endswith(('?', '.', '!')) else '.'
        result += f'{dot} {text[:1].upper()}{text[1:]}'
    return result
