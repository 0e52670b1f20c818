# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
List every file of the package with the first sentence of its docstring.

  module_index.py          print the list
  module_index.py --write  put it into docs/architecture.md (part of `make docs`)
"""

import ast
from pathlib import Path
import sys

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / 'docs' / 'architecture.md'
BEGIN, END = '<!-- files: begin -->', '<!-- files: end -->'


def summary(path):
    """Return the first line of a module's docstring, without the dot at its end."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding='utf-8'))) or ''
    first = text.partition('\n\n')[0].replace('\n', ' ').rstrip('.')
    return first.replace('|', '\\|').replace('``', '`')


def index(package):
    """
    Write the list.

    :param package: the folder of the package.
    :returns: Markdown, one table row per file, in alphabetical order of the folders.
    """
    lines = ['| file | content |', '|---|---|']
    for path in sorted(package.rglob('*.py'), key=lambda path: (path.parent, path.name)):
        if path.name != '__init__.py':
            lines.append(f'| `{path.relative_to(package).as_posix()}` | {summary(path)} |')
    return '\n'.join(lines) + '\n'


def with_index(page, package):
    """Return a page with the list between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f'{before}{BEGIN}\n{index(package)}{END}{rest.partition(END)[2]}'


def main():
    """Print or write the list."""
    if sys.argv[1:] != ['--write']:
        print(index(ROOT / 'optitrack_vrpn'), end='')
        return
    before = PAGE.read_text(encoding='utf-8')
    text = with_index(before, ROOT / 'optitrack_vrpn')
    if text != before:
        PAGE.write_text(text, encoding='utf-8')
        print(f'wrote {PAGE}')


if __name__ == '__main__':
    main()
