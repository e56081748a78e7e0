"""
Total variation, exactly, guided by a photograph
================================================

Denoising by total variation makes images of flat regions. On a graph it is the min-norm point of a
cut function in disguise, and solved exactly by cuts. Here a noisy depth map is denoised, with the
same weight for all edges, and with weights from a photograph of the same scene.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls
from logsuper.learning import contrast_weights, total_variation

[picture], [mask], _ = ls.make_scenes(1, shape=(96, 128), seed=5)
depth = 0.5 + 0.2 * np.linspace(-1, 1, 128) - 0.3 * mask  # the animal stands in front of a wall
noisy = depth + np.random.default_rng(0).normal(scale=0.3, size=depth.shape)

# %%
# ``total_variation(theta, w)`` minimises half the squared distance to theta plus the sum over edges
# of ``w |x_i - x_j|``. First the same weight for all edges, then weights that are small where the
# colours of the picture change (but not 0, or single pixels on outlines would keep their noise).

edges = ls.prepare(ls.grid_cuts(depth.shape)).edges
uniform = np.ones(len(edges))
[contrast] = contrast_weights(picture.reshape(-1, 3) / 255.0, edges, scales=0.5)
guided = 0.05 + 0.95 * contrast


def error(image):
    return float(np.sqrt(np.mean((image - depth) ** 2)))


strengths = np.geomspace(0.05, 20.0, 12)
found = {
    name: [total_variation(noisy, s * w, shape=depth.shape).values for s in strengths]
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
# Uniform weights must choose between noise and blurred outlines. Guided weights know where outlines
# may be: only where the photograph has some. Not all of those are steps in depth, which does no
# harm.

figure, axes = plt.subplots(2, 3, figsize=(9.6, 5.4), layout="constrained")
axes[0, 0].imshow(picture)
axes[0, 0].set_title("photograph, the guide", fontsize=11)
axes[1, 0].imshow(depth, cmap="cividis", vmin=0, vmax=1)
axes[1, 0].set_title("true depth", fontsize=11)
axes[0, 1].imshow(noisy, cmap="cividis", vmin=0, vmax=1)
axes[0, 1].set_title(f"measured, error {error(noisy):.3f}", fontsize=11)
nearby = np.bincount(edges.ravel(), np.repeat(guided, 2)) / np.bincount(edges.ravel())
axes[1, 1].imshow(nearby.reshape(depth.shape), cmap="gray", vmin=0, vmax=1)
axes[1, 1].set_title("guided weights (black: 0)", fontsize=11)
for axis, (name, image) in zip(axes[:, 2], best.items(), strict=True):
    shown = axis.imshow(image, cmap="cividis", vmin=0, vmax=1)
    axis.set_title(f"{name}, error {error(image):.3f}", fontsize=11)
figure.colorbar(shown, ax=axes[:, 2], label="depth", aspect=30)
for axis in axes.flat:
    axis.set_xticks([])
    axis.set_yticks([])

# %%
# The error against the strength. In practice the best strength is not known, so that a wide minimum
# is worth something too.

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
