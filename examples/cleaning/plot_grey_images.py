"""
Masks from grey images, and uneven light
========================================

Grey images are taken to have two levels, each with Gaussian noise. Both levels, the noise and the
model of the shapes are learned from the images alone. If the light is uneven, this is not true: a
warning says so, and :func:`logsuper.flatten_light` helps.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

rng = np.random.default_rng(0)
clean = ls.make_silhouettes(16, shape=(50, 50), seed=2)
grey = 0.4 + 0.25 * clean + rng.normal(scale=0.25, size=clean.shape)

# %%
# Even light
# ----------
# The two levels differ by no more than one standard deviation of the noise. A threshold cannot
# separate them; neighbours can.

denoiser = ls.MaskDenoiser().fit(grey)
masks = denoiser.predict(grey)
low, high = denoiser.channel_.levels
print(f"levels that were found: {low:.2f} and {high:.2f} (true: 0.40 and 0.65)")
threshold = grey > 0.525
for name, found in (("threshold in the middle", threshold), ("MaskDenoiser", masks)):
    print(f"{name}: {np.mean(found != clean):.1%} wrong")

figure, axes = plt.subplots(3, 4, figsize=(8.4, 6.4), layout="constrained")
for column, k in enumerate((0, 3, 7, 8)):
    axes[0, column].imshow(grey[k], cmap="gray")
    axes[1, column].imshow(threshold[k], cmap="gray_r")
    axes[2, column].imshow(masks[k], cmap="gray_r")
for axis, name in zip(axes[:, 0], ("grey image", "threshold", "learned"), strict=True):
    axis.set_ylabel(name, fontsize=11)
for axis in axes.flat:
    axis.set_xticks([])
    axis.set_yticks([])

# %%
# Uneven light
# ------------
# Three pictures of herds, with less noise, but under a light that grows from left to right. This is
# not independent noise. The fit notices, by what its masks leave inside of regions.

herd = ls.make_silhouettes(27, shape=(32, 32), seed=2).reshape(3, 3, 3, 32, 32)
herd = herd.swapaxes(2, 3).reshape(3, 96, 96)
uneven = 0.4 + 0.25 * herd + rng.normal(scale=0.12, size=herd.shape) + np.linspace(-0.4, 0.4, 96)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    careless = ls.MaskDenoiser().fit(uneven)
for warning in caught:
    print(f"warning: {warning.message}")

flat = ls.flatten_light(uneven)
careful = ls.MaskDenoiser().fit(flat)
results = {
    "as it comes": (uneven, careless.predict(uneven)),
    "after flatten_light": (flat, careful.predict(flat)),
}
for name, (_, found) in results.items():
    print(f"{name}: {np.mean(found != herd):.1%} wrong")

# %%
# Left as it is, the light ends up in the mask. Subtracting a wide blur removes most of it.

figure, axes = plt.subplots(2, 2, figsize=(7.0, 7.2), layout="constrained")
for line, (name, (images, found)) in zip(axes, results.items(), strict=True):
    line[0].imshow(images[0], cmap="gray")
    line[1].imshow(found[0], cmap="gray_r", interpolation="nearest")
    line[0].set_ylabel(name, fontsize=11)
axes[0, 0].set_title("grey image", fontsize=11)
axes[0, 1].set_title("mask", fontsize=11)
for axis in axes.flat:
    axis.set_xticks([])
    axis.set_yticks([])
plt.show()
