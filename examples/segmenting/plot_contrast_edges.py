"""
Edges that follow the picture
=============================

Neighbours should agree, but less so across an outline in the picture. So the weight of each edge
falls with the contrast between its two pixels. The example puts such weights into one cut, and
compares them with uniform ones.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls
from logsuper.learning import contrast_weights

# %%
# A colour picture, and weak evidence: a classifier that is right about each pixel only somewhat
# more often than not, independently.

images, masks, _ = ls.make_scenes(1, shape=(90, 120), seed=4)
picture, truth = images[0] / 255.0, masks[0]
log_odds = ls.Flips(0.4).log_odds(ls.Flips(0.4).sample(truth, seed=0)).ravel()

# %%
# ``prepare`` lists the edges; ``edge_weights`` are factors on them. Both kinds of weights are tried
# at a range of strengths, each range in one call.

s = ls.prepare(ls.grid_cuts(truth.shape))
[contrast] = contrast_weights(picture.reshape(-1, 3), s.edges, scales=0.5)
strengths = np.geomspace(0.05, 20.0, 30)
theta = np.tile(log_odds, (len(strengths), 1))
alpha = np.repeat(strengths[:, None], 2, axis=1)
found = {
    "uniform weights": s.maximize(theta, alpha).y,
    "contrast weights": s.maximize(theta, alpha, edge_weights=contrast).y,
}
errors = {name: np.mean(y != truth.ravel(), axis=1) for name, y in found.items()}
for name, error in errors.items():
    print(f"{name}: at best {error.min():.1%} wrong, at strength {strengths[error.argmin()]:.2f}")

# %%
# Uniform weights must be weak, or legs and head are lost. Contrast weights may be strong: outlines
# in the picture stay cheap to cut. In this drawn picture every outline is visible; in photographs
# some are not, and there strong weights do harm.

figure, axis = plt.subplots(figsize=(7.0, 3.4), layout="constrained")
for (name, error), colour in zip(errors.items(), ("#D55E00", "#0072B2"), strict=True):
    axis.plot(strengths, 100 * error, "o-", markersize=4, color=colour, label=name)
axis.set_xscale("log")
axis.set_xlabel("strength of the coupling")
axis.set_ylabel("wrong pixels (%)")
axis.set_ylim(bottom=0)
axis.legend(frameon=False)
axis.grid(alpha=0.3)

# %%
# The mean factor of the edges at each pixel is small (dark) along outlines. Below, each kind of
# weight at its best strength.

nearby = np.bincount(s.edges.ravel(), np.repeat(contrast, 2), minlength=s.n)
nearby /= np.bincount(s.edges.ravel(), minlength=s.n)
best = {name: y[errors[name].argmin()].reshape(truth.shape) for name, y in found.items()}
figure, axes = plt.subplots(2, 3, figsize=(9.0, 4.9), layout="constrained")
axes[0, 0].imshow(picture)
axes[0, 0].set_title("picture", fontsize=11)
axes[0, 1].imshow(log_odds.reshape(truth.shape), cmap="gray_r", interpolation="nearest")
axes[0, 1].set_title("what the classifier says", fontsize=11)
shown = axes[0, 2].imshow(nearby.reshape(truth.shape), cmap="cividis", vmin=0, vmax=1)
axes[0, 2].set_title("mean factor of the edges", fontsize=11)
figure.colorbar(shown, ax=axes[0, 2], shrink=0.8)
axes[1, 0].imshow(truth, cmap="gray_r")
axes[1, 0].set_title("truth", fontsize=11)
for axis, (name, mask) in zip(axes[1, 1:], best.items(), strict=True):
    axis.imshow(mask, cmap="gray_r", interpolation="nearest")
    axis.set_title(f"{name}, {np.mean(mask != truth):.1%} wrong", fontsize=11)
for axis in axes.flat:
    axis.set_xticks([])
    axis.set_yticks([])
plt.show()
