"""Clean a folder of noisy masks, as `logsuper denoise` does from the shell.

Usage: python examples/clean_a_folder.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np

import logsuper as ls
from logsuper.cli import main as logsuper
from logsuper.io import ImageFiles, write_image


def main(folder: Path) -> None:
    clean = ls.make_silhouettes(24, shape=(50, 50), seed=3)
    noisy = ls.Flips(0.1).sample(clean, seed=3)
    for k, mask in enumerate(noisy):
        pixels = (255 * mask).astype(np.uint8)
        write_image(folder / "masks" / f"{k:02}.png", pixels, force=True)

    # the same as: logsuper denoise FOLDER/masks --out FOLDER/clean --compare
    words = [str(folder / "masks"), "--out", str(folder / "clean"), "--compare", "--force"]
    logsuper(["denoise", *words], standalone_mode=False)

    cleaned = np.array(ImageFiles([folder / "clean" / f"{k:02}.png" for k in range(24)])) > 0
    print(f"wrong pixels, in truth: {np.mean(noisy != clean):.2%} before, ", end="")
    print(f"{np.mean(cleaned != clean):.2%} after")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
