# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Check the rules of the repository: files, names, imports, dependencies, documents.

  rules.py    print each broken rule with its places; exit code 1 if there are any

`make check`, `make lint` and `make test` run it.
"""

import sys

import rules_code
import rules_documents


def broken(rules):
    """Give the lines that say which rules are broken and where."""
    for rule in rules:
        for where in rule():
            yield '{}: {}'.format(rule.__name__.replace('_', ' '), where)


def main():
    """Run all rules; return the exit code."""
    sys.path.insert(0, str(rules_code.ROOT))
    wrong = list(broken((*rules_code.RULES, *rules_documents.RULES)))
    print(*wrong, sep='\n', end='\n' if wrong else '')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
