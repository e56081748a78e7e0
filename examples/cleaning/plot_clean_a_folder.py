"""
Clean a folder of masks from the shell
======================================

Twenty-four noisy masks lie in a folder. One command learns from them how noisy they are and how
smooth their shapes, and writes clean masks with the same names. Nobody tells it what is clean.
"""

import contextlib
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls
from logsuper.cli import main as logsuper
from logsuper.io import ImageFiles, write_image

# %%
# A folder of noisy masks: silhouettes with one pixel in ten flipped.

folder = Path(tempfile.mkdtemp())
clean = ls.make_silhouettes(24, shape=(50, 50), seed=3)
noisy = ls.Flips(0.1).sample(clean, seed=3)
for k, mask in enumerate(noisy):
    write_image(folder / "masks" / f"{k:02}.png", (255 * mask).astype(np.uint8))

# %%
# The same as ``logsuper denoise masks --out clean --compare`` in a shell. What it prints are its
# own estimates, made without a clean mask.

with contextlib.chdir(folder):
    logsuper(["denoise", "masks", "--out", "clean", "--compare"], standalone_mode=False)

# %%
# The truth, which the command did not know: the estimates above are close.

cleaned = np.array(ImageFiles([folder / "clean" / f"{k:02}.png" for k in range(24)])) > 0
print(f"wrong pixels, in truth: {np.mean(noisy != clean):.2%} before, ", end="")
print(f"{np.mean(cleaned != clean):.2%} after")

# %%
# ``--compare`` also writes a sheet to look at: before, after, and how doubtful each pixel is
# (white: not at all; brown: one bit). Doubt is where one would expect it, along the outlines. The
# first six of its rows:

sheet = plt.imread(folder / "clean" / "compare" / "overview.png")  # twelve rows
third = len(sheet) // 4
figure, axes = plt.subplots(1, 2, figsize=(9.0, 5.8), layout="constrained")
for axis, part in zip(axes, (sheet[:third], sheet[third : 2 * third]), strict=True):
    axis.imshow(part)
    axis.set_axis_off()
plt.show()
