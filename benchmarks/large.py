"""Memory and time for twenty images of one megapixel: `python -m benchmarks.large`.

Masks are drawn as thresholded smooth noise and stored as one byte per pixel, with 10 % of the
pixels flipped. A denoiser learns from the noisy images only, then denoises all of them. Memory is
the growth of the peak resident set over its size before, which includes the data.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

import logsuper as ls
from benchmarks.memory import _peak, _reset_peak, _resident
from benchmarks.tables import show, write_page
from logsuper.report import Table

TEXT = (
    "Masks are thresholded smooth noise, one byte a pixel, one in ten flipped; a denoiser learns "
    "from the noisy ones alone, then cleans them. Memory is the work space of one image on each "
    "thread: it does not grow with the number of images, the masks that are returned aside."
)


def make_masks(count: int, size: int) -> np.ndarray:
    """Return blobs about thirty pixels wide, (count, size, size)."""
    rng = np.random.default_rng(0)
    masks = np.empty((count, size, size), dtype=np.uint8)
    for mask in masks:
        mask[...] = gaussian_filter(rng.standard_normal((size, size), dtype=np.float32), 8.0) > 0
    return masks


def main(arguments: list[str] | None = None) -> int:
    """Print time and memory of fit and predict."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--markdown", type=Path, help="write the table to this page")
    options = parser.parse_args(arguments)
    clean = make_masks(options.count, options.size)
    noisy = clean.copy()
    rng = np.random.default_rng(1)
    for image in noisy:
        image ^= rng.random(image.shape, dtype=np.float32) < 0.1
    small = noisy[:1, :64, :64]
    ls.MaskDenoiser(noise=0.1).fit(small).predict(small)  # imports, tables and threads first
    gc.collect()
    data = noisy.nbytes
    model = ls.MaskDenoiser(modular="shared", n_jobs=options.jobs)
    found = np.empty(0)
    rows = []
    for name in ("fit", "predict"):
        reset = _reset_peak()
        before = _resident()[0] if reset else _peak()
        start = time.perf_counter()
        if name == "fit":
            model.fit(noisy)
        else:
            found = model.predict(noisy)
        seconds = time.perf_counter() - start
        growth = max(0, _peak() - before)
        note = "" if reset else " (peak not reset, a lower bound)"
        rows.append(
            [
                name,
                f"{seconds:.1f} s",
                f"{growth / 2**20:.0f} MiB{note}",
                f"{growth / data:.1f}",
                f"{growth / (8 * data):.2f}",
            ]
        )
    wrong = [100.0 * float((images != clean).mean()) for images in (noisy, found)]
    tables = [
        Table(
            f"{options.count} images of {options.size} x {options.size}, {data / 2**20:.0f} MiB",
            ["", "time", "memory beyond the data", "times the bytes", "times the same as float64"],
            rows,
        ),
        Table(
            "Result",
            ["noise, true", "estimated", "wrong before", "wrong after"],
            [["0.1", f"{float(model.noise_):.4f}", *(f"{error:.2f} %" for error in wrong)]],
        ),
    ]
    show(tables)
    if options.markdown:
        given = sys.argv[1:] if arguments is None else arguments
        write_page(options.markdown, "Large images", "benchmarks.large", given, TEXT, tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
