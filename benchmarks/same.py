"""Whether results have stayed the same: `python -m benchmarks.same --write FILE | --against FILE`.

Computes the fixed table of `same_cases` and `same_learning`, some 1,700 named arrays, and stores
it, or compares it with a stored one: whether each row is equal to the bit, or how much it differs.
An exception that a row raises is part of its result. The exit code is 1 if a row differs or is
missing and is not listed in `EXPECTED`. Run both on the same machine: other processors round
differently.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import same_cases, same_learning
from benchmarks.same_cases import Case
from benchmarks.tables import show, write_page
from logsuper.report import Table, versions

# Intended changes, as patterns of row names (as in fnmatch) and reasons; for example
#     "files/grid */bracket": "a grid that was read from a file is now recognised as one",
_ROWS = "transfer matrices go from row to row, and round in another order: the last digits"
EXPECTED: dict[str, str] = {
    # the grid's methods apply, and draws are numbered by pixels
    "*as Cut/*": "a grid that was given as a Cut is recognised as one",
    "files/grid*": "a grid that was read from a file is recognised as one",
    # likewise
    "*, fixed/*": "a grid with fixed pixels stays a grid",
    "*, certain/*": "a grid with pixels that an observation fixes stays a grid",
    # modular terms are summed in one place, in another order: the last digits
    "*directed cut/*": "an undirected cut and a modular term, by one structure",
    "learners/*moments*": "matched within their error bars by default",
    "estimators/moments/*": "matched within their error bars by default",
    "learners/edge weights/score": "arrays that may know hidden pixels are refused",
    **{
        f"inference/{model}/{row}": _ROWS
        for model in ("grid *", "posterior *", "chain")
        for row in (
            "log Z, exact",
            "log Z, transfer",
            "log Z, strips",
            "marginals, auto",
            "marginals, exact",
            "marginals, transfer",
            "marginals, strips",
            "bracket*",
            "log p of the mode, *",
        )
    },
    "learners/*exact*": _ROWS,
    "learners/*/means, auto": _ROWS,
    "learners/*/log evidence": _ROWS,
    "estimators/exact*": _ROWS,
    "estimators/pseudo/predict_proba": _ROWS,
    "estimators/lfield/predict_proba": _ROWS,
}

GROUPS: dict[str, Callable[[], Iterator[Case]]] = {**same_cases.GROUPS, **same_learning.GROUPS}
RAISES = "raises"
ABOUT = "about"

Rows = dict[str, np.ndarray]


def flatten(result: Any) -> np.ndarray:
    """Return all numbers of a result as one vector; None is NaN.

    Layouts are ignored: a row of pixels and an image of them are the same result.
    """
    if isinstance(result, tuple | list):
        return np.concatenate([flatten(part) for part in result] or [np.empty(0)])
    return np.ravel(np.asarray(np.nan if result is None else result)).astype(np.float64)


def compute(groups: list[str], progress: Callable[[str], object] = str) -> Rows:
    """Return the rows of some groups of the table."""
    rows: Rows = {}
    with threadpool_limits(1), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for group in groups:
            start, name = time.perf_counter(), f"{group}/..."
            try:
                for case, run in GROUPS[group]():
                    name = f"{group}/{case}"
                    if name in rows:
                        raise ValueError(f"two rows are called {name}")
                    rows[name] = evaluate(run)
                    name = f"{group}/... after {case}"
            except Exception as error:  # the rest of the group is missing
                rows[name] = raised(error)
            progress(f"{group}: {time.perf_counter() - start:.1f} s")
    return rows


def evaluate(run: Callable[[], object]) -> np.ndarray:
    """Return the result of a case, or the exception that it raises."""
    try:
        return flatten(run())
    except Exception as error:
        return raised(error)


def raised(error: Exception) -> np.ndarray:
    """Return an error as an array; its message is for the reader only, and not compared."""
    return np.array([RAISES, type(error).__name__, str(error)[:200]])


def differs(before: np.ndarray, after: np.ndarray) -> list[str]:
    """Return how two results differ: absolutely, relatively, in words; empty if they do not."""
    words = [" ".join(a[:2]) if a.dtype.kind == "U" else "" for a in (before, after)]
    if any(words):
        new = after[2][:80] if words[1] else ""
        same = words[0] == words[1]
        return [] if same else ["", "", f"{words[0] or 'numbers'} -> {words[1] or 'numbers'} {new}"]
    if before.shape != after.shape:
        return ["", "", f"{before.size} numbers -> {after.size}"]
    # NaN has many bit patterns, which are equivalent
    old, new = (np.where(np.isnan(a), np.nan, a) for a in (before, after))
    if old.tobytes() == new.tobytes():
        return []
    changed = old.view(np.uint64) != new.view(np.uint64)
    old, new = old[changed], new[changed]
    with np.errstate(all="ignore"):
        gap = np.abs(new - old)
        scale = np.maximum(np.abs(old), np.abs(new))
        ratio = np.where(scale > 0, gap / scale, 0.0)
    return [f"{gap.max():.3g}", f"{ratio.max():.3g}", f"{changed.sum()} of {before.size} numbers"]


def compare(before: Mapping[str, np.ndarray], after: Rows) -> tuple[Table, Table, int]:
    """Return the differences, counts per group, and the number of unexpected changes."""
    rows, unexpected = [], 0
    counts: dict[str, np.ndarray] = {}
    for name in dict.fromkeys([*before, *after]):
        count = counts.setdefault(name.split("/")[0], np.zeros(4, dtype=int))
        if name in before and name in after:
            found = differs(before[name], after[name])
        else:
            found = ["", "", "missing" if name in before else "new"]
        why = next((why for p, why in EXPECTED.items() if fnmatch.fnmatchcase(name, p)), "")
        count[0] += 1
        if not found:
            count[1] += 1
            continue
        count[2 if why else 3] += 1
        unexpected += not why
        rows.append([name, *found, why or "NOT EXPECTED"])
    head = ["row", "largest difference", "relative", "what", "why"]
    summary = [[group, *map(str, count)] for group, count in counts.items()]
    summary.append(["all", *map(str, np.sum(list(counts.values()), axis=0))])
    columns = ["group", "rows", "equal to the bit", "expected changes", "other changes"]
    return Table("Differences", head, rows), Table("Summary", columns, summary), unexpected


def main(arguments: list[str] | None = None) -> int:
    """Write the table of results, or compare it with a stored one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FILE.npz", help="keep the results")
    what.add_argument("--against", type=Path, metavar="FILE.npz", help="compare with those kept")
    parser.add_argument(
        "--only", action="append", choices=GROUPS, help="a group of rows; repeatable"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    given = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(given)
    groups = options.only or list(GROUPS)
    before: Rows = {}
    if options.against:
        with np.load(options.against) as stored:
            before = {name: stored[name] for name in stored.files}
    rows = compute(groups, lambda line: print(line, file=sys.stderr, flush=True))
    if options.write:
        failed = sum(row.dtype.kind == "U" for row in rows.values())
        with options.write.open("wb") as file:
            np.savez_compressed(file, **{ABOUT: np.array(versions()), **rows})  # type: ignore[arg-type]
        print(f"{len(rows)} rows, of which {failed} are errors, in {options.write}")
        return 0
    about = str(before.pop(ABOUT, "unknown"))
    if options.only:
        before = {name: row for name, row in before.items() if name.split("/")[0] in groups}
    differences, summary, unexpected = compare(before, rows)
    tables = [*([differences] if differences.rows else []), summary]
    show(tables)
    if options.markdown:
        text = f"Before: {about}. Now: {versions()}."
        write_page(
            options.markdown, "Results before and after", "benchmarks.same", given, text, tables
        )
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
