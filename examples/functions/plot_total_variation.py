"""
Total variation, exactly, with a picture's own edges
====================================================

Denoising by total variation makes images of flat regions. On a graph it is the min-norm point of a
cut function in disguise, and solved exactly by a few cuts. Weights per edge, taken from another
picture, keep the outlines of that picture.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls
from logsuper.learning import contrast_weights, total_variation

[picture], [mask], _ = ls.make_scenes(1, shape=(96, 128), seed=5)
guide = picture / 255.0
clean = guide.mean(axis=2)
noisy = clean + np.random.default_rng(0).normal(scale=0.2, size=clean.shape)

# %%
# ``total_variation(theta, w)`` minimises half the squared distance to theta plus the sum over edges
# of ``w |x_i - x_j|``. First the same weight for all edges, then weights that are small where the
# colours of the picture change.

edges = ls.prepare(ls.grid_cuts(clean.shape)).edges
uniform = np.ones(len(edges))
[guided] = contrast_weights(guide.reshape(-1, 3), edges, scales=0.7)


def error(image):
    return float(np.sqrt(np.mean((image - clean) ** 2)))


strengths = np.geomspace(0.02, 2.0, 12)
found = {
    name: [total_variation(noisy, s * w, shape=clean.shape).values for s in strengths]
    for name, w in (("uniform weights", uniform), ("guided weights", guided))
}
print(f"error of the noisy image: {error(noisy):.3f}")
best = {}
for name, images in found.items():
    errors = [error(image) for image in images]
    best[name] = images[int(np.argmin(errors))]
    regions = len(np.unique(best[name]))
    print(f"{name}: error {min(errors):.3f} at best, with {regions} different values")

# %%
# Uniform weights must choose between noise and blurred outlines. Guided weights need not: they know
# where outlines are. (The guide is the colour picture before the noise, as when a sharp photograph
# guides a noisy measurement of the same scene.)

figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.6), layout="constrained")
pictures = {"without noise": clean, "noisy": noisy, **best}
for axis, (name, image) in zip(axes.flat, pictures.items(), strict=True):
    axis.imshow(image, cmap="gray", vmin=clean.min(), vmax=clean.max())
    axis.set_title(f"{name}, error {error(image):.3f}", fontsize=11)
    axis.set_xticks([])
    axis.set_yticks([])

figure, axis = plt.subplots(figsize=(7.0, 3.4), layout="constrained")
for (name, images), colour in zip(found.items(), ("#D55E00", "#0072B2"), strict=True):
    axis.plot(strengths, [error(image) for image in images], "o-", color=colour, label=name)
axis.axhline(error(noisy), color="gray", linestyle="--", label="noisy")
axis.set_xscale("log")
axis.set_xlabel("strength of total variation")
axis.set_ylabel("root mean square error")
axis.legend(frameon=False)
axis.grid(alpha=0.3)
plt.show()
