# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Test docs/architecture.md: 20 random lines of the product, for which a reader names the file.

    python3 tools/random_lines.py SEED              the lines, with three lines before and after
    python3 tools/random_lines.py SEED --answers    the same with their files

Blank lines, comments, docstrings, imports and lines below 25 characters are left out.
"""

import argparse
import ast
from pathlib import Path
import random
import subprocess

ROOT = Path(__file__).resolve().parent.parent
#: Numbers of lines: of a test, and of those shown around each.
COUNT, AROUND = 20, 3
#: Shortest line, without indentation.
SHORTEST = 25


def lines_of_code(text: str) -> list[int]:
    """Return the indices of the lines that can be asked for."""
    excluded: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        string = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if string or isinstance(node, (ast.Import, ast.ImportFrom)):
            excluded.update(range(node.lineno - 1, (node.end_lineno or node.lineno)))
    return [i for i, line in enumerate(text.splitlines())
            if i not in excluded and len(line.strip()) >= SHORTEST
            and not line.lstrip().startswith('#')]


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description='Random lines of the product.')
    parser.add_argument('seed', type=int)
    parser.add_argument('--answers', action='store_true')
    arguments = parser.parse_args()
    files = subprocess.run(
        ['git', 'ls-files', 'optitrack_vrpn/*.py'], cwd=ROOT, capture_output=True, text=True,
        check=True).stdout.split()
    places = [(name, i) for name in files for i in lines_of_code((ROOT / name).read_text())]
    for number, (name, i) in enumerate(random.Random(arguments.seed).sample(places, COUNT), 1):
        where = f'  {name}:{i + 1}' if arguments.answers else ''
        print(f'--- {number}{where}')
        text = (ROOT / name).read_text().splitlines()
        for k in range(max(0, i - AROUND), min(len(text), i + AROUND + 1)):
            print('>' if k == i else ' ', text[k])


if __name__ == '__main__':
    main()
