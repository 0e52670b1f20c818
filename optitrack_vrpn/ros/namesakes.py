# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Notice another node of the same full name, which would publish the same topics."""

from rclpy.node import Node

#: When to look, after the beginning (ns): discovery takes a moment, and on a busy machine several.
_LOOKS_NS = (1_000_000_000, 3_000_000_000, 8_000_000_000)


class Namesakes:
    """
    Look a few times for nodes that are called as this one is.

    :param node: this one.
    :param now_ns: the beginning.
    """

    def __init__(self, node: Node, now_ns: int) -> None:
        self._node = node
        self._due_ns = [now_ns + after_ns for after_ns in _LOOKS_NS]

    def look(self, now_ns: int) -> str:
        """
        Look, if it is time to.

        :returns: what to say of others of this name, once; else ''.
        """
        if not self._due_ns or now_ns < self._due_ns[0]:
            return ''
        self._due_ns.pop(0)
        own = self._node.get_name(), self._node.get_namespace()
        others = self._node.get_node_names_and_namespaces().count(own) - 1
        if others < 1:
            return ''
        self._due_ns.clear()
        name = self._node.get_fully_qualified_name()
        return (
            f'{"another node is" if others == 1 else f"{others} other nodes are"} called {name} '
            'too, so that topics and transforms are published twice, and commands reach either: '
            'end one, or give each a name of its own (-r __node:=NAME); one that was killed is '
            'seen for some 20 s more')
