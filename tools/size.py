# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Print the size of the project: lines, files, constants, parameters, words.

  size.py [FOLDER]    of another checkout

A line of code has a token other than a comment or a docstring. A numeric constant is a name in
capitals that a module assigns from numbers alone. A word is a run of characters without a blank
that has a letter or a digit; the bars of tables and rules are none.
"""

import ast
import io
from pathlib import Path
import re
import statistics
import sys
import tokenize

NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
           tokenize.ENDMARKER}
ARITHMETIC = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.Name, ast.operator,
              ast.unaryop, ast.expr_context)


def lines_of(source):
    """Count the lines of code, and the other lines that are not blank."""
    prose = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, 'body', ())
        for statement in body if isinstance(body, list) else ():
            # Docstrings, also those below an attribute.
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) \
                    and isinstance(statement.value.value, str):
                prose |= set(range(statement.lineno, statement.end_lineno + 1))
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            code |= set(range(token.start[0], token.end[0] + 1))
    text = sum(1 for line in source.splitlines() if line.strip())
    code -= prose
    return len(code), text - len(code)


def script_lines(source):
    """Count the lines of JavaScript that are neither blank nor a comment."""
    return sum(1 for line in source.splitlines() if line.strip() and not line.strip().startswith(
        '//'))


def constants_of(source):
    """Count the numeric constants of a module."""
    count = 0
    for node in ast.parse(source).body:
        value = getattr(node, 'value', None)
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or value is None:
            continue
        name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        parts = list(ast.walk(value))
        literals = [part.value for part in parts if isinstance(part, ast.Constant)]
        count += bool(
            re.fullmatch(r'[(), _A-Z0-9]+', name) and literals
            and all(isinstance(part, ARITHMETIC) for part in parts)
            and all(type(literal) in (int, float) for literal in literals))
    return count


def words_of(text):
    """Count the words of a document."""
    return sum(any(character.isalnum() for character in run) for run in text.split())


def main(arguments):
    """Print one row per figure."""
    root = Path(arguments[0] if arguments else Path(__file__).resolve().parent.parent)
    package = root / 'optitrack_vrpn'
    sources = {path: path.read_text() for path in sorted(package.rglob('*.py'))}
    sizes = {path: lines_of(source) for path, source in sources.items()}
    per_package = {}
    for path, (code, _) in sizes.items():
        parts = path.relative_to(package).parts
        name = parts[0] if len(parts) > 1 else '(files)'
        per_package[name] = per_package.get(name, 0) + code
    for name, code in sorted(per_package.items(), key=lambda item: -item[1]):
        print(f'  {name:16} {code:6}')
    code = sum(size[0] for size in sizes.values())
    prose = sum(size[1] for size in sizes.values())
    physical = [len(source.splitlines()) for source in sources.values()]
    tests = sum(lines_of(path.read_text())[0] for path in (root / 'test').rglob('*.py'))
    bench = sum(lines_of(path.read_text())[0] for folder in ('bench', 'tools')
                for path in (root / folder).rglob('*.py'))
    readme = words_of((root / 'README.md').read_text())
    words = readme + sum(words_of(path.read_text()) for path in root.glob('docs/*.md'))
    print(f'lines of product code            {code:6}')
    print(f'files                            {len(sources):6}')
    print(f'median file, physical lines      {statistics.median(physical):6.0f}')
    print(f'files above 500 physical lines   {sum(lines > 500 for lines in physical):6}')
    print(f'numeric constants of modules     '
          f'{sum(constants_of(source) for source in sources.values()):6}')
    print(f'comments and docstrings per code {prose / code:6.0%}')
    script = sum(script_lines(path.read_text()) for path in package.rglob('*.js'))
    print(f'dashboard: Python + JavaScript   {per_package.get("dashboard", 0) + script:6}')
    print(f'lines of test code               {tests:6}')
    print(f'lines of bench and tools         {bench:6}')
    print(f'words in README.md               {readme:6}')
    print(f'words in docs and README         {words:6}')


if __name__ == '__main__':
    main(sys.argv[1:])
