"""The doors of the package, tried as users do: `python -m benchmarks.doors --data DIR`.

A section per door, each in a module of its own with `run(data) -> Section`. On a page that is
there, only the sections that were run are replaced.
"""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tables import show
from logsuper.report import Table, write_files

SECTIONS = {"denoise": "benchmarks.door_denoise"}
"""The name of a section and the module that makes it."""


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    title: str
    text: str
    tables: list[Table]

    def markdown(self, command: str) -> str:
        """Return the part as Markdown, with the command that printed it."""
        parts = [f"## {self.title}", f"Printed by `{command}`. {self.text}"]
        parts += [f"### {table.title}\n\n{table.markdown()}" for table in self.tables]
        return "\n\n".join(parts)


def compose(page: str, sections: dict[str, Section], command: str) -> str:
    """Return the page with some sections replaced or added, each between marks with its name."""
    kept = dict(re.findall(r"<!-- (\w+) -->\n(.*?)\n<!-- end -->", page, re.DOTALL))
    for name, section in sections.items():
        kept[name] = section.markdown(command)
    parts = [f"<!-- {name} -->\n{kept[name]}\n<!-- end -->" for name in SECTIONS if name in kept]
    return "\n\n".join(["# The doors, as users find them", *parts]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run sections, print their tables, and write them to the page."""
    parse = argparse.ArgumentParser(prog="python -m benchmarks.doors", description=__doc__)
    parse.add_argument("--data", type=Path, help="folder that has weizmann_horse_db/")
    parse.add_argument("--only", choices=list(SECTIONS), help="one section")
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="page to write")
    options = parse.parse_args(arguments)
    names = [options.only] if options.only else list(SECTIONS)
    found = {name: importlib.import_module(SECTIONS[name]).run(options.data) for name in names}
    for section in found.values():
        show(section.tables)
    if options.markdown is not None:
        page = options.markdown.read_text(encoding="utf-8") if options.markdown.exists() else ""
        # the path of the user's folder is not published
        words = ["--data", "DIR"] if options.data else []
        words += ["--only", options.only] if options.only else []
        command = shlex.join(
            ["python", "-m", "benchmarks.doors", *words, "--markdown", str(options.markdown)]
        )
        text = compose(page, found, command)
        write_files({options.markdown.name: text.encode()}, options.markdown.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
