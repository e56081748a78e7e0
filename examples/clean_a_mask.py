"""Clean a noisy mask with one exact cut, and save it.

Usage: python examples/clean_a_mask.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

import logsuper as ls


def main(folder: Path) -> None:
    shape, flipped = (120, 160), 0.15
    clean = ls.make_silhouettes(1, shape, seed=4)[0]
    noisy = clean ^ (np.random.default_rng(4).random(shape) < flipped)

    # Diagonal neighbours make outlines smoother; each direction is weighted by its length.
    across, down, falling, rising = ls.grid_cuts(shape, neighbors=8)
    f = 0.7 * across + 0.7 * down + 0.5 * falling + 0.5 * rising

    # How much each pixel of the noisy image speaks for a 1: its log-odds.
    theta = np.log((1 - flipped) / flipped) * (2.0 * noisy.ravel() - 1.0)
    y, value = ls.maximize(f, theta)
    restored = y.reshape(shape)

    for name, image in (("noisy", noisy), ("restored", restored)):
        print(f"wrong pixels, {name}: {np.mean(image != clean):.1%}")
    print(f"value of the maximum: {value:.3f}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, image in (("noisy", noisy), ("restored", restored)):
        Image.fromarray(255 * (1 - image.astype(np.uint8))).save(folder / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
