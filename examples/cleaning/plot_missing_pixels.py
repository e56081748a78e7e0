"""
Missing pixels, scattered or in a block
=======================================

Pixels that were not observed are NaN; they are filled in, with probabilities. How well depends
less on how many are missing than on where: scattered pixels have neighbours that were seen, the
middle of a large block has none.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

# %%
# A model is learned from noisy masks alone. Other masks then lose pixels in four ways.

clean = ls.make_silhouettes(60, shape=(50, 50), seed=5)
noisy = ls.datasets.corrupt(clean, ls.Flips(0.05), seed=5)
denoiser = ls.MaskDenoiser().fit(noisy[:40])
test, truth = noisy[40:], clean[40:]

rng = np.random.default_rng(0)
lost = {
    "scattered": rng.random(test.shape) < 0.2,
    "every fifth row": np.broadcast_to(np.arange(50)[:, None] % 5 == 2, test.shape),
    "small block": np.zeros(test.shape, dtype=bool),
    "large block": np.zeros(test.shape, dtype=bool),
}
lost["small block"][:, 20:29, 18:27] = True
lost["large block"][:, 18:42, 15:36] = True

# %%
# The error that counts is that of the lost pixels. ``expected`` is what the probabilities say about
# it themselves: the mean of the smaller of P and 1 - P.

found = {}
for name, gone in lost.items():
    observed = np.where(gone, np.nan, test)
    p = denoiser.predict_proba(observed)
    found[name] = observed, p
    wrong = np.mean((p > 0.5)[gone] != truth[gone])
    expected = np.minimum(p, 1 - p)[gone].mean()
    print(
        f"{name:16} {gone.mean():.0%} lost; of these wrong {wrong:5.1%}, expected {expected:5.1%}"
    )

# %%
# Rows and single pixels are hardly missed, and the probabilities are right about that. In the large
# block the model knows little: neighbours agree, and some places belong to an animal more often
# than others. It doubts much there (green and blue), but not enough: more is wrong than it expects.
# What legs are, such a model does not know.

image = 3
palette = plt.get_cmap("gray_r").with_extremes(bad="#E69F00")
figure, axes = plt.subplots(3, 4, figsize=(9.0, 6.4), layout="constrained")
for column, (name, (observed, p)) in zip(axes.T, found.items(), strict=True):
    pictures = (observed[image], p[image] > 0.5, p[image])
    for axis, picture, colours in zip(
        column, pictures, (palette, "gray_r", "viridis"), strict=True
    ):
        shown = axis.imshow(picture, cmap=colours, vmin=0, vmax=1, interpolation="nearest")
        axis.set_xticks([])
        axis.set_yticks([])
    column[0].set_title(name, fontsize=11)
for axis, name in zip(axes[:, 0], ("observed", "filled in", "probability"), strict=True):
    axis.set_ylabel(name, fontsize=11)
figure.colorbar(shown, ax=axes, shrink=0.3, anchor=(0, 0.02), label="P(pixel = 1)")
figure.suptitle("Orange pixels were lost")

# %%
# What could be in the small block? Exact samples of the posterior answer with whole masks. (Large
# blocks without any observation are hard for exact sampling; the error that it raises says what to
# use instead.)

observed = found["small block"][0][image]
samples = denoiser.sample_posterior(observed[None], 5, random_state=0)[0]
figure, axes = plt.subplots(1, 6, figsize=(9.0, 1.9), layout="constrained")
for axis, picture in zip(axes, (truth[image], *samples), strict=True):
    axis.imshow(picture, cmap="gray_r", interpolation="nearest")
    axis.set_xlim(9.5, 35.5)
    axis.set_ylim(36.5, 10.5)
    axis.add_patch(
        plt.Rectangle((17.5, 19.5), 9, 9, fill=False, edgecolor="#D55E00", linewidth=1.5)
    )
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_title("truth" if axis is axes[0] else "sample", fontsize=10)
plt.show()
