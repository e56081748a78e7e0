"""Tables of measurements, for the terminal and for pages of the documentation."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rich import table as rich
from rich.console import Console
from rich.text import Text

from logsuper.report import Table, write_files


def show(tables: list[Table]) -> None:
    """Print tables."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    for table in tables:
        shown = rich.Table(*table.head, title=table.title)
        for row in table.rows:
            shown.add_row(*map(Text, row))
        console.print(shown)


def write_page(
    path: Path, title: str, module: str, arguments: list[str], text: str, tables: list[Table]
) -> None:
    """Write a page of Markdown that says which command printed it."""
    # the path of the user's folder is not published
    words = [
        "DIR" if i and arguments[i - 1] == "--data" else word for i, word in enumerate(arguments)
    ]
    parts = [f"# {title}", f"Printed by `python -m {module} {shlex.join(words)}`. {text}"]
    parts += [f"## {table.title}\n\n{table.markdown()}" for table in tables]
    write_files({path.name: ("\n\n".join(parts) + "\n").encode()}, path.parent)
