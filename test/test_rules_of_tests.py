# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Tests show behaviour: they read no private attributes and compare no sentences."""

import ast
import functools
from pathlib import Path
import re

import pytest

#: Private in name alone: the documented methods of a named tuple.
NAMED_TUPLE = {'_asdict', '_fields', '_make', '_replace'}
#: Private attributes that a test may read, by file, with the reason.
PRIVATE = {
    'test_client_hostile.py': {
        # The data that waits for a server which never reads: sent, it would be the kernel's.
        '_account', '_out'},
    'test_gantry_loop.py': {
        # A disk that is full or never answers; no file of a test is one.
        '_CLOSE_S', '_file', '_lines', '_run', '_thread'},
    'test_gantry_machine.py': {
        # The time of the last set points: two seconds of silence without waiting for them.
        '_last_s'},
    'test_recording_disks.py': {
        # A disk that is full for one of two files.
        '_index'},
    'test_recording_ros.py': {
        # A recorder counts the messages of all topics together.
        '_intake'},
    'test_rgbd_sim.py': {
        # The camera's thread, which outlives ROS for a moment.
        '_thread'},
    'test_ros_alive.py': {
        # The lock of rclpy's context, which Kilted holds while it destroys nodes.
        '_lock'},
}
#: So many words in a row are a sentence. Fewer name a thing or a value that a reader needs.
SENTENCE = re.compile(r"(?:\b[A-Za-z']+ ){3}[A-Za-z']+\b")
#: Functions, fixtures and methods of the kits that search a text for their argument.
SEARCHES = {
    'count', 'diagnosis', 'endswith', 'findall', 'fullmatch', 'index', 'judged', 'lacking',
    'lacking_in_lines', 'logged', 'match', 'said', 'search', 'startswith', 'wait_for'}
#: Texts that are compared in full since other programs read them.
VERBATIM = {
    'test_node_start.py',    # a Python program, found by searching it
}


@functools.cache
def trees():
    """Give path and syntax tree of each file of the tests."""
    return [(path, ast.parse(path.read_text()))
            for path in sorted(Path(__file__).resolve().parent.glob('*.py'))]


def private_reads(tree):
    """Give (line, name) of private attributes and imported names, except those of ``self``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = getattr(node.value, 'id', '')
            names = [] if owner in ('self', 'cls') else [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and called(node) in ('getattr', 'setattr'):
            names = [value.value.rpartition('.')[2] for value in node.args
                     if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        else:
            continue
        for name in names:
            if name.startswith('_') and not name.startswith('__') and name not in NAMED_TUPLE:
                yield node.lineno, name


def called(call):
    """Give the name of the called function or method."""
    return getattr(call.func, 'attr', getattr(call.func, 'id', ''))


def texts(node):
    """Give the literal texts of a value, without those in the calls that compute it."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif not isinstance(node, ast.Call):
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def compared_sentences(tree):
    """Give (line, text) of sentences that something is compared with or searched for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            values = [node.left, *node.comparators]
        elif isinstance(node, ast.Call):
            values = [keyword.value for keyword in node.keywords if keyword.arg == 'match']
            values += node.args if called(node) in SEARCHES else []
        else:
            continue
        for value in values:
            for text in texts(value):
                if SENTENCE.search(text):
                    yield node.lineno, text


def test_tests_read_no_private_attributes():
    wrong, unused = [], {name: set(allowed) for name, allowed in PRIVATE.items()}
    for path, tree in trees():
        for line, name in private_reads(tree):
            if name in PRIVATE.get(path.name, ()):
                unused[path.name].discard(name)
            else:
                wrong.append(f'{path.name}:{line} {name}')
    assert not wrong
    assert not any(unused.values()), 'an exception that nothing needs'


def test_tests_compare_values_and_names_instead_of_sentences():
    """So that a message can be worded better without a test that fails."""
    assert not [f'{path.name}:{line} {text!r}' for path, tree in trees()
                if path.name not in VERBATIM for line, text in compared_sentences(tree)]


@pytest.mark.parametrize(('line', 'private', 'sentences'), [
    ('assert node._state == 1', 1, 0), ('assert a._replace(x=1) == self._b', 0, 0),
    ('from package.module import _Gate, gate', 1, 0), ("setattr(module, '_NAME', 3)", 1, 0),
    ("assert 'no body was found' in text", 0, 1),
    ("assert 'no such body' in text", 0, 0),
    ("assert 'body wand' in text and 'timeout_s' in text", 0, 0),
    ("pytest.raises(Error, match='the file could not be read')", 0, 1),
    ("sink.wait_for(f'{name} is not there any more')", 0, 1),
    ("wait_until(done, 'the end of it all is awaited')", 0, 0)])
def test_the_rules_find_what_they_forbid(line, private, sentences):
    tree = ast.parse(line)
    assert len(list(private_reads(tree))) == private
    assert len(list(compared_sentences(tree))) == sentences
