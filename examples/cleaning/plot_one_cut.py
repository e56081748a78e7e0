"""
Clean a mask with one exact cut
===============================

A noisy mask, the rate of its noise and how strongly neighbours should agree: this is enough for a
clean mask, the exact optimum of one small optimisation problem. Nothing is learned here; the
example shows what the weights do, with four and with eight neighbours.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

shape, flipped = (120, 160), 0.15
clean = ls.make_silhouettes(1, shape, seed=4)[0]
noisy = ls.Flips(flipped).sample(clean, seed=4)

# %%
# The problem
# -----------
# Every pixel of the noisy image speaks for 0 or for 1: its log-odds ``theta``. Every pair of
# neighbours that differ costs something: the cut ``f``. :func:`logsuper.maximize` finds the mask y
# that maximises ``theta'y - f(y)``. With eight neighbours, the diagonals get a smaller weight, as
# they are longer.

theta = ls.Flips(flipped).log_odds(noisy).ravel()
across, down = ls.grid_cuts(shape)
four = 1.1 * across + 1.1 * down
across, down, falling, rising = ls.grid_cuts(shape, neighbors=8)
eight = 0.7 * across + 0.7 * down + 0.5 * falling + 0.5 * rising

found = {name: ls.maximize(f, theta) for name, f in (("4", four), ("8", eight))}
for name, (y, value) in found.items():
    wrong = np.mean(y.reshape(shape) != clean)
    print(f"{name} neighbours: {wrong:.2%} wrong, value of the maximum {value:.2f}")

# %%
# Most of the noise is gone in both. With four neighbours, the cost of an outline is its length
# counted along rows and columns, which makes diagonal outlines expensive; with eight, it is closer
# to the true length.

figure, axes = plt.subplots(2, 2, figsize=(8.0, 6.4), layout="constrained")
images = {
    "the true mask": clean,
    f"observed, {np.mean(noisy != clean):.1%} wrong": noisy,
}
for name, (y, _) in found.items():
    restored = y.reshape(shape)
    images[f"one cut, {name} neighbours, {np.mean(restored != clean):.1%} wrong"] = restored
for axis, (title, image) in zip(axes.flat, images.items(), strict=True):
    axis.imshow(image, cmap="gray_r", interpolation="nearest")
    axis.set_title(title, fontsize=11)
    axis.set_xticks([])
    axis.set_yticks([])

# %%
# How smooth?
# -----------
# The weight of the cuts is a compromise: too small, and noise remains; too large, and legs and ears
# go. Here it can be tuned by looking at the truth, and at their best weights four and eight
# neighbours are about equally good. Without the truth the weight can be learned:
# :ref:`sphx_glr_gallery_cleaning_plot_learn_from_noisy_masks.py`. All 25 problems of a curve are
# solved in one call.

weights = np.geomspace(0.1, 10.0, 25)
curves = {
    "4 neighbours": ([*ls.grid_cuts(shape)], [1.1, 1.1]),
    "8 neighbours": ([*ls.grid_cuts(shape, neighbors=8)], [0.7, 0.7, 0.5, 0.5]),
}
figure, axis = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
for (name, (cuts, base)), colour in zip(curves.items(), ("#0072B2", "#D55E00"), strict=True):
    alpha = weights[:, None] * np.array(base)
    y, _, _ = ls.prepare(cuts).maximize(np.tile(theta, (len(weights), 1)), alpha)
    error = np.mean(y != clean.ravel(), axis=1)
    axis.plot(weights, 100 * error, "o-", color=colour, markersize=4, label=name)
    print(f"{name}: least error {error.min():.2%}, at {weights[error.argmin()]:.2f} times")
axis.set_xscale("log")
axis.set_yscale("log")
axis.set_xlabel("factor on all weights of the cuts")
axis.set_ylabel("wrong pixels (%)")
axis.set_title("Too little smoothing, and too much")
axis.legend(frameon=False)
axis.grid(alpha=0.3)
plt.show()
