# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The package's reader of YAML: plain data, and no key twice in one mapping.

PyYAML and rcl keep the last of two equal keys without a word, so that ``high: 1`` far above
``high: 30`` has no effect.
"""

from collections.abc import Hashable
from typing import Any, Optional

from optitrack_vrpn.core.errors import ConfigurationError
import yaml


class DuplicateKeyError(ConfigurationError):
    """A key is given twice in one mapping."""


def parse_yaml(
    text: str, source: str, loader: 'type[yaml.SafeLoader]' = yaml.SafeLoader,
    parameters: bool = False,
) -> Any:
    """
    Read a YAML document as plain data.

    :param source: name of the file in error messages.
    :param loader: a loader with further tags.
    :param parameters: whether it is a parameter file of ROS: within ``ros__parameters`` a name
        must not be given twice in two spellings, as ``a.b`` and as ``b`` below ``a``, and rcl
        refuses every alias (``*a``), though not an anchor (``&a``) without one.
    :raises ConfigurationError: if the text is not YAML, or has a key twice; with the lines.
    """
    try:
        if parameters and '&' in text:
            _refuse_aliases(text, source)
        reader = loader(text)
        try:
            root = reader.get_single_node()
            if root is None:
                return None
            _Check(reader, source, parameters).walk(root)
            return reader.construct_document(root)
        finally:
            reader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f'{source}: is not YAML: {_reason(error)}') from None


def _refuse_aliases(text: str, source: str) -> None:
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigurationError(
                f'{source}: line {event.start_mark.line + 1}: ROS does not read '
                f'aliases (*{event.anchor}): write the value of &{event.anchor} instead')


def _reason(error: Exception) -> str:
    """Return an error of PyYAML in one line, with the line of the file and the usual remedy."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return ' '.join(str(error).split())
    tab = ': indent with spaces, not with tabs' if "'\\t'" in str(error.problem) else ''
    return f'line {error.problem_mark.line + 1}: {error.problem}{tab}'


class _Check:
    """Refuse equal keys in one mapping, and what contains itself by an alias."""

    def __init__(self, reader: yaml.SafeLoader, source: str, parameters: bool) -> None:
        self._reader, self._source, self._parameters = reader, source, parameters
        self._above: set[int] = set()
        self._done: set[int] = set()

    def walk(
        self, node: yaml.Node, names: Optional[dict[Any, int]] = None, before: str = '',
    ) -> None:
        """
        Check a node and what it contains.

        :param names: lines of the names of parameters so far; None outside of them.
        :param before: beginning of the names below the node.
        """
        if isinstance(node, yaml.ScalarNode) or id(node) in self._done:
            return
        if id(node) in self._above:
            raise ConfigurationError(
                f'{self._source}: line {node.start_mark.line + 1}: what begins here contains '
                'itself by an alias (*): write it out')
        self._above.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self.walk(item)
        else:
            self._walk_mapping(node, names, before)
        self._above.remove(id(node))
        self._done.add(id(node))

    def _walk_mapping(
        self, node: yaml.Node, names: Optional[dict[Any, int]], before: str,
    ) -> None:
        lines: dict[Any, int] = {}
        for key, content in node.value:
            self.walk(key)
            # A key by ``<<`` may be replaced.
            found = '<<' if key.tag == 'tag:yaml.org,2002:merge' else (
                self._reader.construct_object(key, deep=True))
            if isinstance(found, Hashable):     # PyYAML refuses the others
                self._refuse_second(lines, found, key)
            name = f'{before}{key.value}'
            if names is not None and not isinstance(content, yaml.MappingNode):
                self._refuse_second(names, name, key)
            if self._parameters and key.value == 'ros__parameters':
                self.walk(content, {})
            else:
                self.walk(content, names, f'{name}.')

    def _refuse_second(self, lines: dict[Any, int], name: Any, key: yaml.Node) -> None:
        line = key.start_mark.line + 1
        if name in lines:
            raise DuplicateKeyError(
                f'{self._source}: {name!r} is given twice, in line {lines[name]} and in line '
                f'{line}: delete one, since only one of them would have an effect')
        lines[name] = line
