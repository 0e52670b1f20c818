# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the tools of the package as processes."""

from pathlib import Path
import subprocess
import sys

ROOT = Path(__file__).resolve().parent.parent


def words(tool, *arguments):
    """Give the command line of a tool."""
    return [sys.executable, '-m', 'optitrack_vrpn', tool, *map(str, arguments)]


def run_tool(tool, *arguments, timeout=90.0, **options):
    """Run a tool until it ends; gives its exit code and texts."""
    return subprocess.run(words(tool, *arguments), cwd=ROOT, capture_output=True, text=True,
                          timeout=timeout, **options)


def start_tool(tool, *arguments, **options):
    """Start a tool whose outputs are read as texts."""
    return subprocess.Popen(words(tool, *arguments), text=True, **{
        'cwd': ROOT, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, **options})
