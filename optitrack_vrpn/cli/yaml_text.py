# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The package's reader of YAML: plain data, and no key twice in one mapping.

PyYAML and rcl keep the last of two equal keys without a word, so that ``high: 1`` far above
``high: 30`` has no effect.
"""

from collections.abc import Callable, Hashable
from typing import Any

from optitrack_vrpn.core.errors import ConfigurationError
import yaml


class DuplicateKeyError(ConfigurationError):
    """A key is given twice in one mapping."""


def parse_yaml(
    text: str, source: str, loader: 'type[yaml.SafeLoader]' = yaml.SafeLoader,
) -> Any:
    """
    Read a YAML document as plain data.

    :param source: name of the file in error messages.
    :param loader: a loader with further tags.
    :raises ConfigurationError: if the text is not YAML, or has a key twice; with the lines.
    """
    return _parse(text, source, loader, lambda root, keys: _check(root, keys, source))


def parse_parameter_file(text: str, source: str) -> Any:
    """
    Read a ROS parameter file as ``parse_yaml``.

    Within ``ros__parameters`` a name must not be given twice in two spellings, as ``a.b`` and as
    ``b`` below ``a``.
    """
    def check(root: yaml.Node, keys: 'Callable[[yaml.Node], Any]') -> None:
        _check(root, keys, source)
        for section in _sections(root, set()):
            lines: dict[str, int] = {}
            for name, line in _leaves(section, '', set()):
                _refuse_second(lines, name, line, source)
    return _parse(text, source, yaml.SafeLoader, check)


def _parse(
    text: str, source: str, kind: 'type[yaml.SafeLoader]',
    check: 'Callable[[yaml.Node, Callable[[yaml.Node], Any]], None]',
) -> Any:
    try:
        loader = kind(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            _refuse_cycle(root, set(), set(), source)
            check(root, lambda node: loader.construct_object(node, deep=True))
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f'{source}: is not YAML: {_reason(error)}') from None


def _reason(error: Exception) -> str:
    """Return an error of PyYAML in one line, with the line of the file and the usual remedy."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return ' '.join(str(error).split())
    tab = ': indent with spaces, not with tabs' if "'\\t'" in str(error.problem) else ''
    return f'line {error.problem_mark.line + 1}: {error.problem}{tab}'


def _refuse_cycle(node: yaml.Node, above: set[int], done: set[int], source: str) -> None:
    """Refuse a mapping or list that contains itself by an alias."""
    if isinstance(node, yaml.ScalarNode) or id(node) in done:
        return
    if id(node) in above:
        raise ConfigurationError(
            f'{source}: line {node.start_mark.line + 1}: what begins here contains itself by an '
            'alias (*): write it out')
    above.add(id(node))
    for item in node.value:
        for child in item if isinstance(item, tuple) else (item,):
            _refuse_cycle(child, above, done, source)
    above.remove(id(node))
    done.add(id(node))


def _refuse_second(lines: dict[Any, int], key: Any, line: int, source: str) -> None:
    if key in lines:
        raise DuplicateKeyError(
            f'{source}: {key!r} is given twice, in line {lines[key]} and in line {line}: delete '
            'one, since only one of them would have an effect')
    lines[key] = line


def _check(root: yaml.Node, value: 'Callable[[yaml.Node], Any]', source: str) -> None:
    """Refuse keys that are equal in one mapping; keys by ``<<`` may be replaced."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or isinstance(node, yaml.ScalarNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
            continue
        lines: dict[Any, int] = {}
        for key, content in node.value:
            waiting += [key, content]
            found = '<<' if key.tag == 'tag:yaml.org,2002:merge' else value(key)
            if isinstance(found, Hashable):     # PyYAML refuses the others
                _refuse_second(lines, found, key.start_mark.line + 1, source)


def _sections(node: yaml.Node, seen: set[int]) -> list[yaml.Node]:
    """List the mappings below the keys ``ros__parameters``."""
    if not isinstance(node, yaml.MappingNode) or id(node) in seen:
        return []
    seen.add(id(node))
    found: list[yaml.Node] = []
    for key, content in node.value:
        found += [content] if key.value == 'ros__parameters' else _sections(content, seen)
    return found


def _leaves(node: yaml.Node, before: str, above: set[int]) -> list[tuple[str, int]]:
    """List the full names of the values below a mapping, and their lines."""
    if not isinstance(node, yaml.MappingNode) or id(node) in above:
        return []
    found: list[tuple[str, int]] = []
    for key, content in node.value:
        name = f'{before}{key.value}'
        found += _leaves(content, f'{name}.', above | {id(node)}) if isinstance(
            content, yaml.MappingNode) else [(name, key.start_mark.line + 1)]
    return found
