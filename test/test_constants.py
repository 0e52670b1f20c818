# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Numeric constants state their origin; chosen and measured ones what half and double change."""

import ast
import functools
from pathlib import Path
import re

import optitrack_vrpn

PACKAGE = Path(optitrack_vrpn.__file__).resolve().parent
# Numbers of a wire protocol or a file format, whose names are those of its specification.
FORMATS = {'natnet/constants.py', 'vrpn/constants.py', 'recording/mcap_format.py',
           'recording/pcap.py', 'recording/bag_metadata.py', 'autopilot/fake_autopilot.py'}
# Mathematical constants, units and well-known ports.
PLAIN = {'_AXES', 'IDENTITY', '_MEGABYTE', '_MM', '_PORT', '_COOKIE_SIZE', '_REFUSED_NS',
         '_SEQUENCE_MODULUS'}
ARITHMETIC = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.Name, ast.operator, ast.unaryop,
              ast.expr_context)


def is_number(value):
    nodes = list(ast.walk(value))
    literals = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return all(isinstance(node, ARITHMETIC) for node in nodes) and bool(literals) \
        and all(type(literal) in (int, float) for literal in literals)


def block(lines, body, index):
    """Return the comment above or the text below the run of assignments of this one."""
    first = last = index
    while first and isinstance(body[first - 1], (ast.Assign, ast.AnnAssign)) \
            and body[first - 1].end_lineno == body[first].lineno - 1:
        first -= 1
    while last + 1 < len(body) and isinstance(body[last + 1], (ast.Assign, ast.AnnAssign)) \
            and body[last + 1].lineno == body[last].end_lineno + 1:
        last += 1
    above = body[first].lineno - 1
    while above and lines[above - 1].startswith('#'):
        above -= 1
    text = ' '.join(lines[above:body[first].lineno - 1])
    below = body[last + 1] if last + 1 < len(body) else None
    if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
        text += str(below.value.value)
    return text + lines[body[index].end_lineno - 1].partition('#')[2]


@functools.cache
def constants():
    """List place, name and comment of every numeric constant of a module."""
    found = []
    for path in sorted(PACKAGE.rglob('*.py')):
        source, file = path.read_text(), path.relative_to(PACKAGE).as_posix()
        body = ast.parse(source).body
        for index, node in enumerate(body):
            if isinstance(node, ast.Assign):
                name = ast.unparse(node.targets[0])
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                name = ast.unparse(node.target)
            else:
                continue
            if re.fullmatch(r'[(), _A-Z0-9]+', name) and is_number(node.value):
                found.append((file, name, block(source.splitlines(), body, index)))
    return found


def test_the_constants_were_found():
    assert len(constants()) > 300


def test_every_constant_has_a_comment():
    assert not [(file, name) for file, name, text in constants()
                if not text and file not in FORMATS and name not in PLAIN]


def test_chosen_and_measured_constants_state_the_effect_of_half_and_double():
    assert not [(file, name) for file, name, text in constants()
                if re.search('chosen|measured', text, re.IGNORECASE)
                and not re.search('hal[fv]|doubl|twice|likewise', text, re.IGNORECASE)]
