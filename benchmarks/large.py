"""Memory and time of twenty images of a megapixel: `python -m benchmarks.large`.

Masks are drawn as thresholded smooth noise and held as one byte a pixel, 10 % of them flipped. A
denoiser learns from the noisy ones alone, then cleans all of them. Memory is the growth of the peak
of the resident set over what was there before, the data included.
"""

from __future__ import annotations

import argparse
import gc
import time

import numpy as np
from scipy.ndimage import gaussian_filter

import logsuper as ls
from benchmarks.memory import _peak, _reset_peak, _resident


def make_masks(count: int, size: int) -> np.ndarray:
    """Return blobs some thirty pixels wide, (count, size, size)."""
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
    print(
        f"data: {options.count} images of {options.size} x {options.size}, {data / 2**20:.0f} MiB"
    )
    model = ls.MaskDenoiser(modular="shared", n_jobs=options.jobs)
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
        print(
            f"{name}: {seconds:.1f} s, {growth / 2**20:.0f} MiB beyond the data, "
            f"{(growth + data) / data:.1f} times the data in all{note}"
        )
    print(f"noise: estimated {float(model.noise_):.4f}, true 0.1")
    before, after = (100.0 * float((images != clean).mean()) for images in (noisy, found))
    print(f"error: {after:.2f} %, before {before:.2f} %")
    return 0


if __name__ == "__main__":
    main()
