"""Tables of measurements: to the terminal, and as a page of the documentation."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from logsuper._base._files import atomic_write


class Measured(NamedTuple):
    """A table."""

    title: str
    head: list[str]
    rows: list[list[str]]


def show(tables: list[Measured]) -> None:
    """Print tables."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    for table in tables:
        shown = Table(*table.head, title=table.title)
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)


def write_page(
    path: Path, title: str, module: str, arguments: list[str], text: str, tables: list[Measured]
) -> None:
    """Write a page of Markdown that says which command printed it."""
    # a folder of the user's is nobody else's business
    words = [
        "DIR" if i and arguments[i - 1] == "--data" else word for i, word in enumerate(arguments)
    ]
    lines = [f"# {title}", "", f"Printed by `python -m {module} {shlex.join(words)}`. {text}", ""]
    for table in tables:
        lines += [f"## {table.title}", ""]
        for row in [table.head, ["---"] * len(table.head), *table.rows]:
            lines.append(f"| {' | '.join(row)} |")
        lines.append("")
    with atomic_write(path) as file:
        file.write("\n".join(lines).encode())
