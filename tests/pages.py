"""Run the code in the pages of the documentation, in order, and compare what it prints.

A page is run from top to bottom in an empty folder: blocks of `python` share one namespace, and of
blocks of `sh` the lines that begin with `logsuper`. A block of `text` that directly follows is
what they print. A comment `<!-- run ... -->` is Python that readers do not see: preparations, and
assertions about the block before it.

`python -m tests.pages PAGE...` writes what is printed into the pages. Where a page shows
`../images/NAME.png` and its code has written `NAME.png`, that becomes the picture.
"""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import sys
import tempfile
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from logsuper.cli import main as logsuper

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

# Commands in blocks of `sh` that are not run: they belong to the reader's system.
OUTSIDE = ("cd", "eval", "export", "git", "make", "mkdir", "pip", "python", "source", "xdg-open")
INTERACTIVE = ("studio",)  # commands of `logsuper` that run until they are stopped
OPTIONAL = "dask|distributed|torch|zarr"  # a block that imports one runs where it is installed
CLUSTER = "LocalCluster("  # a block that starts one is run by test_cluster.py
WIDTH = "88"  # columns of the terminal that commands print to
MIN_WIDTH = 800  # pixels; smaller pictures are enlarged by a whole factor

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|^<!-- run\n(.*?)^-->$", re.DOTALL | re.MULTILINE)
# Durations: "1.2 s", and the last cell of a row of `logsuper bounds`.
_DURATION = re.compile(r"\b[\d.]+ (?:ms|s|min)\b|\b\d+\.\d{3}(?= │$)", re.MULTILINE)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]\d+)?)")


class Block(NamedTuple):
    """A block of a page: its language, its text, the line it begins at, its place in the page."""

    language: str
    text: str
    line: int
    start: int
    end: int


class Step(NamedTuple):
    """A block that was run, what it printed, and the block that says what it prints."""

    code: Block
    printed: str
    expected: Block | None


def pages() -> list[Path]:
    """Return all pages with code: README, and what is in docs but was not built there."""
    written = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
    built = {"_build", "auto_examples", "generated"}
    return [
        page
        for page in written
        if not built & set(page.relative_to(ROOT).parts) and any(map(_runs, blocks(page)))
    ]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks and the hidden code of a page."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        language, shown, hidden = match.groups()
        line = text.count("\n", 0, match.start()) + 2
        name = "python" if hidden is not None else language
        found.append(Block(name, hidden or shown or "", line, match.start(), match.end()))
    return found


def run(page: Path) -> tuple[list[Step], dict[str, Any]]:
    """Run a page in the current folder; return its steps, and the names that it has defined."""
    text, found = page.read_text(encoding="utf-8"), blocks(page)
    names: dict[str, Any] = {"__name__": "__main__"}
    steps = []
    for block, after in zip(found, [*found[1:], None], strict=False):
        if _runs(block) and not _lacks(block):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                _run_block(page, block, names)
            follows = (
                after is not None
                and after.language == "text"
                and not text[block.end : after.start].strip()
            )
            steps.append(Step(block, printed.getvalue(), after if follows else None))
    return steps, names


def differences(page: Path, steps: list[Step]) -> str:
    """Return what blocks print and the page does not say, with line numbers; "" if nothing."""
    wrong = []
    for code, printed, expected in steps:
        if expected is not None and not agree(printed, expected.text):
            place = f"{page.relative_to(ROOT)}, line {expected.line}"
            wrong.append(f"{place} says\n{expected.text}\nand line {code.line} prints\n{printed}")
    return "\n".join(wrong)


def agree(printed: str, said: str) -> bool:
    """Return whether two texts have the same words and numbers, durations left out.

    Decimal fractions may differ by one unit in their last place, as rounding may on another
    machine; integers may not.
    """
    first, second = (_NUMBER.split(_DURATION.sub("", text)) for text in (printed, said))
    words = [[part.split() for part in parts[::2]] for parts in (first, second)]
    if words[0] != words[1]:
        return False
    return all(
        a == b or abs(Decimal(a) - Decimal(b)) <= Decimal((0, (1,), _last_place(a, b)))
        for a, b in zip(first[1::2], second[1::2], strict=True)
    )


def _last_place(*numbers: str) -> int:
    """Return the exponent of the last digit of decimal fractions, -999 of integers."""
    places = [Decimal(number).as_tuple().exponent for number in numbers]
    return max(int(place) if int(place) < 0 else -999 for place in places)


def rewrite(page: Path, steps: list[Step]) -> None:
    """Put what was printed into the page, where it differs from what the page says."""
    text = page.read_text(encoding="utf-8")
    for step in reversed(steps):
        said = "" if step.expected is None else _DURATION.sub("", step.expected.text)
        if step.expected is not None and said.split() != _DURATION.sub("", step.printed).split():
            lines = (line.rstrip() for line in step.printed.strip("\n").split("\n"))
            fresh = "```text\n" + "\n".join(lines) + "\n```"
            text = text[: step.expected.start] + fresh + text[step.expected.end :]
    page.write_text(text, encoding="utf-8")


def keep_pictures(page: Path, folder: Path) -> list[str]:
    """Store the pictures that a page shows and has made, small ones enlarged."""
    shown = re.findall(r"\]\(\.\./images/([\w.-]+\.png)\)", page.read_text(encoding="utf-8"))
    made = [name for name in shown if (folder / name).exists()]
    for name in made:
        with Image.open(folder / name) as picture:
            factor = max(1, round(MIN_WIDTH / picture.width))
            size = picture.width * factor, picture.height * factor
            enlarged = picture.resize(size, Image.Resampling.NEAREST)
            enlarged.save(DOCS / "images" / name, optimize=True)
    return made


def _runs(block: Block) -> bool:
    return block.language == "python" or (block.language == "sh" and bool(_commands(block)))


def _lacks(block: Block) -> bool:
    """Return whether a block imports something that is not installed, or starts a cluster."""
    if CLUSTER in block.text:
        return True
    wanted = re.findall(rf"^(?:import|from) ({OPTIONAL})\b", block.text, re.MULTILINE)
    return any(importlib.util.find_spec(name) is None for name in wanted)


def _run_block(page: Path, block: Block, names: dict[str, Any]) -> None:
    if block.language == "python":
        # empty lines before the code make the lines of a traceback those of the page
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
        exec(code, names)
        return
    for command in _commands(block):
        try:
            logsuper(command[1:])
        except SystemExit as end:
            if end.code:
                said = sys.stdout.getvalue() if isinstance(sys.stdout, io.StringIO) else ""
                place = f"{page.name}, line {block.line}: {shlex.join(command)}"
                raise AssertionError(f"{place}: exit code {end.code}\n{said}") from end


def _commands(block: Block) -> list[list[str]]:
    """Return the `logsuper` commands of a block; refuse commands that are not known."""
    text = block.text.replace("\\\n", " ")  # lines that go on
    lines = [shlex.split(line, comments=True) for line in text.split("\n")]
    for words in filter(None, lines):
        program = Path(words[0]).name
        if program not in ("logsuper", *OUTSIDE):
            raise AssertionError(f"line {block.line}: {program} is neither run nor left to readers")
    own = [words for words in lines if words and Path(words[0]).name == "logsuper"]
    return [words for words in own if not {*words[1:2]} & {*INTERACTIVE}]


def main(names: list[str]) -> None:
    """Run pages, each in a folder of its own, and write what they print into them."""
    os.environ.update(COLUMNS=WIDTH, MPLBACKEND="agg")
    warnings.simplefilter("error")
    here = Path.cwd()
    for page in [Path(name).resolve() for name in names] or pages():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                steps, _ = run(page)
            finally:
                os.chdir(here)
            rewrite(page, steps)
            made = keep_pictures(page, Path(folder))
        print(page.relative_to(ROOT), len(steps), "blocks", *made)


if __name__ == "__main__":
    main(sys.argv[1:])
