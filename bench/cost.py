# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure processor time, memory and the time of the start; ratios compare turns of one run.

    python bench/cost.py steps                  own share of a pose: compiled and plain, in turns
    python bench/cost.py steps --against OTHER  and another checkout
    python bench/cost.py start                  until the first pose: the node, plain, the floor
    python bench/cost.py WHAT --write-docs      into the documents

Latency, and the processor time of the whole node with DDS, are those of ``latency.py`` and
``latency_trace.py``.
"""

import argparse
import sys

import cost_start
import cost_steps
from latency import DOCS
from latency_tables import write_block

#: What is measured, and its block in the documents.
WHAT = {'steps': (cost_steps, 'own'), 'start': (cost_start, 'start')}


def main():
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='what', required=True)
    for name, (module, _) in WHAT.items():
        command = commands.add_parser(name, description=module.__doc__)
        module.add_arguments(command)
        command.add_argument('--write-docs', action='store_true', help='renew the page')
    arguments = parser.parse_args()
    if arguments.what == 'steps' and arguments.here:
        cost_steps.in_this_process(arguments)
        return 0
    module, block = WHAT[arguments.what]
    text = '\n'.join(module.table(arguments))
    print(text)
    if arguments.write_docs:
        write_block(DOCS, block, text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
