"""Time between strokes on photographs at 640x480: `python -m benchmarks.interaction --data DIR`.

The 25 photographs of the GrabCut database, brought to 640x480 pixels (480x640 if they are upright),
with the strokes of its first set. Each is prepared, cut, and cut again after each of some strokes:
the next one is drawn through the largest region that is wrong, as a user would. Processor seconds
of one thread, all that a session does for a new stroke. The exit code is 1 if the mask after the
second stroke takes more than a fifth of a second for one photograph in ten.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.ndimage import distance_transform_edt, label
from threadpoolctl import threadpool_limits

import logsuper as ls
from benchmarks.segment import Photograph, load
from benchmarks.tables import show, write_page
from logsuper.report import Table

SIZE = (640, 480)
STROKES, WIDTH = 5, 3
LIMIT = 0.2
PARTS = ("preparing", "first mask", "second stroke", "later strokes", "probabilities")


def resized(photograph: Photograph) -> Photograph:
    """Return a photograph of the size that is measured."""
    height, width = photograph.truth.shape
    size = SIZE if width >= height else SIZE[::-1]
    picture = Image.fromarray(photograph.image).resize(size, Image.Resampling.BICUBIC)

    def nearest(values: np.ndarray) -> np.ndarray:
        rows, columns = (
            (np.arange(new) * old) // new for new, old in zip(size[::-1], values.shape, strict=True)
        )
        return values[np.ix_(rows, columns)]

    marks = {which: nearest(own) for which, own in photograph.scribbles.items()}
    return Photograph(photograph.name, np.asarray(picture), nearest(photograph.truth), marks)


def next_stroke(mask: np.ndarray, truth: np.ndarray, marks: np.ndarray) -> np.ndarray | None:
    """Return marks with a dab in the middle of the largest wrong region; None if all is right."""
    wrong = (mask != (truth == 1)) & ~np.isnan(truth) & (marks == 0)
    regions, count = label(wrong)
    if not count:
        return None
    region = regions == 1 + int(np.bincount(regions.ravel())[1:].argmax())
    depth = distance_transform_edt(np.pad(region, 1))[1:-1, 1:-1]
    row, column = np.unravel_index(int(depth.argmax()), depth.shape)
    around = np.hypot(*np.ogrid[-row : len(mask) - row, -column : mask.shape[1] - column]) <= WIDTH
    found = marks.copy()
    found[around & region] = 1 if truth[row, column] == 1 else 2
    return found


def run(photograph: Photograph, which: int = 1) -> tuple[dict[str, list[float]], list[float]]:
    """Return the processor seconds of each part, and the error (%) after each stroke."""
    seconds: dict[str, list[float]] = {part: [] for part in PARTS}

    def timed(part: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        found = work()
        seconds[part].append(time.process_time() - start)
        return found

    marks, truth = photograph.scribbles[which], photograph.truth
    session = timed("preparing", lambda: ls.ScribbleSegmenter().start(photograph.image))
    errors = []
    for turn in range(1 + STROKES):
        part = PARTS[min(1 + turn, 3)]
        mask = timed(part, lambda: session.segment(marks)).mask  # noqa: B023
        known = (photograph.scribbles[which] == 0) & ~np.isnan(truth)
        errors.append(100.0 * float(np.mean(mask[known] != truth[known])))
        more = next_stroke(mask, truth, marks)
        if more is None:
            break
        marks = more
    timed("probabilities", session.probabilities)
    return seconds, errors


def tables(photographs: list[Photograph]) -> tuple[list[Table], bool]:
    """Return the times and the errors, and whether second strokes are fast enough."""
    with threadpool_limits(1):
        found = [run(resized(photograph)) for photograph in photographs]
    rows, good = [], True
    for part in PARTS:
        times = np.array([t for seconds, _ in found for t in seconds[part]])
        if not len(times):
            continue
        median, most = np.quantile(times, [0.5, 0.9])
        good &= part != "second stroke" or most <= LIMIT
        rows.append([part, str(len(times)), f"{median:.3f}", f"{most:.3f}", f"{times.max():.3f}"])
    head = ["what", "how many", "median (s)", "nine in ten within (s)", "slowest (s)"]
    spent = Table("Processor seconds at 640x480, one thread", head, rows)
    longest = max(len(errors) for _, errors in found)
    rows = []
    for turn in range(longest):
        now = np.array([errors[min(turn, len(errors) - 1)] for _, errors in found])
        rows.append([str(turn), f"{now.mean():.2f}", f"{np.median(now):.2f}"])
    head = ["strokes added", "error (%)", "median error (%)"]
    return [spent, Table("Error after each stroke", head, rows)], good


def main(arguments: list[str] | None = None) -> int:
    """Print the tables; the exit code is 1 if second strokes are too slow."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interaction", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with grabcut")
    parser.add_argument("--markdown", type=Path)
    given = sys.argv[1:] if arguments is None else arguments
    args = parser.parse_args(given)
    made, good = tables(load(args.data / "grabcut"))
    show(made)
    if args.markdown is not None:
        text = (
            "The 25 photographs of the GrabCut database at 640x480 pixels, with the strokes of its "
            f"first set, and up to {STROKES} dabs more, each in the middle of the largest region "
            "that is wrong. A stroke is all that happens from the strokes to the new mask: the "
            "colour models, the distances and the cut; what does not depend on strokes is "
            "prepared once. Processor seconds, so that other work on the machine counts little. "
            "The constants that ship were learned from these photographs: errors here are not "
            "those of new ones, for which see [segment.md](segment.md)."
        )
        title = "Time between strokes"
        write_page(args.markdown, title, "benchmarks.interaction", given, text, made)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
