"""Size and imports of the package's rooms (sub-packages): `python -m benchmarks.house [--trace]`.

Prints lines of code (no blanks, comments or docstrings), files that are too long, and the imports
from one room into another: through its `__init__`, or from its private modules. With ``--trace``,
the modules that one `bracket()` and one `MaskDenoiser.fit` visit, and how often they recognise a
structure.
"""

from __future__ import annotations

import argparse
import ast
import collections
import io
import sys
import tokenize
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.tables import show
from logsuper.report import Table

ROOT = Path(__file__).parent.parent / "src" / "logsuper"
LONGEST = 450
# Functions that recognise the structure of a function, before and after the room `structures`.
FINDERS = {
    "as_grid", "as_pairwise", "split", "as_edge_list", "need_grid", "union_of_edges", "graph",
    "find_grid", "find_pairwise", "make_lists",
}  # fmt: skip


def code_lines(text: str) -> int:
    """Return the lines with code: no blanks, comments or docstrings."""
    quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    docstrings = {
        (node.body[0].lineno, node.body[0].end_lineno)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    }
    # a string below a name is a docstring too
    docstrings |= {
        (node.lineno, node.end_lineno)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    told = {line for first, last in docstrings for line in range(first, (last or first) + 1)}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in quiet and token.type != tokenize.ENDMARKER:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - told)


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """Yield the rooms that a file imports from, and whether from a private module."""
    own = file.relative_to(ROOT).parts[0].removesuffix(".py")
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("logsuper."):
            continue
        room, *inner = str(node.module).split(".")[1:]
        if room == own:
            continue
        past = any(part.startswith("_") for part in inner)
        past |= any(alias.name.startswith("_") for alias in node.names)
        yield room, past


def count() -> Table:
    """Return the table of rooms."""
    rows, totals = [], np.zeros(5, dtype=int)
    files: dict[str, list[Path]] = collections.defaultdict(list)
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT).parts
        files[parts[0] if len(parts) > 1 else "(house)"].append(file)
    for room, members in files.items():
        texts = [file.read_text() for file in members]
        doors = collections.Counter(past for file in members for _, past in imports(file))
        numbers = [
            len(members),
            sum(map(code_lines, texts)),
            sum(text.count("\n") > LONGEST for text in texts),
            doors[False],
            doors[True],
        ]
        totals += numbers
        rows.append([room, *map(str, numbers)])
    rows.append(["all", *map(str, totals)])
    head = ["room", "files", "lines of code", f"files over {LONGEST}", "by the door", "past it"]
    return Table("src/logsuper", head, rows)


def trace(title: str, run: Callable[[], object]) -> list[str]:
    """Return the number of modules that a call visits, of calls, and of recognitions."""
    modules: set[str] = set()
    found: collections.Counter[str] = collections.Counter()
    calls = 0

    def note(frame: object, event: str, _: object) -> None:
        nonlocal calls
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and "logsuper" in code.co_filename:
            calls += 1
            modules.add(code.co_filename)
            if code.co_name in FINDERS:
                found[code.co_name] += 1

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    listed = ", ".join(f"{name} {number}" for name, number in found.most_common())
    return [title, str(len(modules)), str(calls), str(found.total()), listed]


def traces() -> Table:
    """Return the table of the traces of two calls."""
    import logsuper as ls

    rng = np.random.default_rng(0)
    fh, fv = ls.grid_cuts((50, 50))
    clean = ls.make_silhouettes(20, (50, 50), seed=0)
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [
            trace(
                "bracket() of a posterior, 50x50",
                lambda: ls.LogSupermodular(
                    1.2 * fh + 0.8 * fv - ls.Modular(rng.normal(size=2500))
                ).bracket(),
            ),
            trace("MaskDenoiser().fit, 20 pairs", lambda: ls.MaskDenoiser().fit(noisy, clean)),
        ]
    return Table("Calls", ["call", "modules", "calls", "recognitions", "of which"], rows)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.house", description=__doc__)
    parser.add_argument("--trace", action="store_true", help="trace two calls as well")
    args = parser.parse_args(arguments)
    show([count(), *([traces()] if args.trace else [])])
    return 0


if __name__ == "__main__":
    sys.exit(main())
