"""Time of exact marginals: `python -m benchmarks.exact_marginals [--root DIR] [--markdown FILE]`.

``--widths`` prints instead how wide the brackets of other windows are.

Noisy silhouettes of 50x50 pixels are denoised by `MaskDenoiser(marginals="exact").predict_proba`:
milliseconds per image on one and on two threads, beside a loop of `m.marginals()` over the same
posteriors, and the certified width of their marginals. Each ``--root`` is another checkout with an
installation of its own in ``.venv`` (``git worktree add DIR REF; make -C DIR install``): its Python
runs the same script, in turns with this one, so that both meet the same load of the machine.
Processor times are medians of the turns. On a busy machine two threads need not be faster.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import logsuper as ls

SIDE = 50
TRAINING = 20
RATES = (0.1, 0.2)
# Columns per window, columns of the windows for the fields from outside, distance of windows.
WINDOWS = ((10, 6, 2), (10, 8, 2), (10, 6, 3), (9, 6, 1), (9, 8, 2))


def measure(images: int, rate: float) -> dict[str, Any]:
    """Return milliseconds per image and widths, by public names that older versions have."""
    clean = ls.make_silhouettes(TRAINING + images, shape=(SIDE, SIDE), seed=0)
    noisy = ls.Flips(rate).sample(clean, seed=1)
    model = ls.MaskDenoiser(noise=rate, marginals="exact")
    model.fit(noisy[:TRAINING], clean[:TRAINING])
    test = noisy[TRAINING:]
    found: dict[str, Any] = {"rate": rate}
    model.predict_proba(test[:2])
    for threads in (1, 2):
        model.n_jobs = threads
        wall, start = time.perf_counter(), time.process_time()
        mean = model.predict_proba(test)
        found[f"cpu{threads}"] = 1e3 * (time.process_time() - start) / images
        found[f"wall{threads}"] = 1e3 * (time.perf_counter() - wall) / images
    found["sum"] = float(mean.sum())
    fh, fv = ls.grid_cuts((SIDE, SIDE))
    odds = np.log((1 - rate) / rate)
    fields = [ls.Modular(odds * (2.0 * image.ravel() - 1.0)) for image in test]
    ls.LogSupermodular(fh + fv - fields[0]).marginals()  # plans are made once
    start = time.process_time()
    widths = []
    for field in fields:
        one = ls.LogSupermodular(fh + fv - field).marginals()
        widths.append(one.upper - one.lower)
    found["loop"] = 1e3 * (time.process_time() - start) / images
    found["width"], found["widest"] = float(np.mean(widths)), float(np.max(widths))
    return found


def compare_windows() -> list[list[str]]:
    """Return the mean and largest width of marginals by other windows, and their work."""
    from scipy.special import expit

    from logsuper.bounds._windows import Stack, marginal_odds

    across, down = np.ones((1, SIDE, SIDE - 1)), np.ones((1, SIDE - 1, SIDE))
    rows = []
    for rate in RATES:
        noisy = ls.Flips(rate).sample(ls.make_silhouettes(6, shape=(SIDE, SIDE), seed=0), seed=1)
        stack = Stack(np.log((1 - rate) / rate) * (2.0 * noisy - 1.0), across, down)
        for window, reach, step in WINDOWS:
            low, high = (expit(odds) for odds in marginal_odds(stack, window, reach, step, 1))
            work = (1 + (SIDE - window) / step) * window * 2**window
            cells = [f"{np.mean(high - low):.3g}", f"{np.max(high - low):.3g}", f"{work:.3g}"]
            rows.append([f"{100 * rate:g} %", str(window), str(reach), str(step), *cells])
    return rows


def run(root: Path | None, images: int) -> list[dict[str, Any]]:
    """Measure in a process of its own, with the Python of a checkout."""
    python = sys.executable if root is None else str(root / ".venv" / "bin" / "python")
    command = [python, __file__, "--images", str(images), "--child"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--root", type=Path, action="append", default=[])
    parser.add_argument("--widths", action="store_true", help="compare windows, and stop")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        warnings.simplefilter("ignore")
        for rate in RATES:
            print(json.dumps(measure(options.images, rate)), flush=True)
        return 0

    from benchmarks.tables import show, write_page
    from logsuper.report import Table

    if options.widths:
        head = ["noise", "columns", "reach", "step", "mean width", "largest", "work"]
        show([Table("Widths of marginals by windows", head, compare_windows())])
        return 0
    roots: list[Path | None] = [None, *(root.resolve() for root in options.root)]
    turns = [[run(root, options.images) for root in roots] for _ in range(options.turns)]
    rows = []
    for place, rate in enumerate(RATES):
        for which in range(len(roots)):
            several = [turn[which][place] for turn in turns]
            middle = {key: np.median([one[key] for one in several]) for key in several[0]}
            names = ("cpu1", "cpu2", "wall1", "wall2", "loop")
            times = [f"{middle[key]:.2f}" for key in names]
            widths = [f"{middle[key]:.4g}" for key in ("width", "widest")]
            name = "this" if not which else f"other {which}"
            rows.append([f"{100 * rate:g} %", name, *times, *widths, f"{middle['sum']:.9f}"])
    head = ["noise", "version", "CPU ms, 1 thread", "2 threads", "wall ms, 1", "2"]
    head += ["m.marginals(), CPU ms", "mean width", "largest", "sum of probabilities"]
    tables = [Table(f"Per image of {SIDE}x{SIDE}, {options.images} images", head, rows)]
    show(tables)
    if options.markdown:
        words = ["--images", str(options.images), "--turns", str(options.turns)]
        words += ["--root", "DIR"] * len(options.root)
        text = (
            "Processor times are medians of turns; wall times depend on the load of the machine. "
            "`other` is the version at DIR."
        )
        write_page(
            options.markdown, "Exact marginals", "benchmarks.exact_marginals", words, text, tables
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
