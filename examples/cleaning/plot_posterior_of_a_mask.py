"""
What a noisy mask could also have been
======================================

After seeing a noisy, incomplete copy of a mask, what is known about the mask itself? The posterior
of a log-supermodular model under independent noise is log-supermodular again. So its marginals and
its log-partition function are bracketed by certificates, and its samples are exact: each of them
is a mask that could have been the true one.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

image = ls.make_silhouettes(1, shape=(50, 50), seed=0)[0]
fh, fv = ls.grid_cuts(image.shape)
prior = ls.LogSupermodular(1.05 * fh + 2.2 * fv)
channel = ls.Missing(0.2, ls.Flips(0.1))  # a fifth of the pixels lost, a tenth flipped
observed = channel.sample(image, seed=0)
posterior = prior.observe(channel, observed)

# %%
# Certified inference
# -------------------
# Both ends of each interval are proved, not sampled.

bracket = posterior.bracket()
print(f"log Z of the posterior: {bracket}")
mu = posterior.marginals()
print(f"marginals known to {np.max(mu.upper - mu.lower):.1e}, by {mu.method}")
for name, decoded in {"mode": posterior.mode(), "marginals > 1/2": mu > 0.5}.items():
    print(f"{name}: {100 * np.mean(decoded != image):.2f} % of the pixels are wrong")

# %%
# Exact samples
# -------------
# The mode is one mask, without a single speck: smoother than what the model takes for typical. The
# samples show the variety that the data allow. They agree about the trunk, and differ along the
# outline and in the tail, which the noise has all but hidden.

X = posterior.sample(500, seed=0)
figure, axes = plt.subplots(2, 4, figsize=(9.0, 4.9), layout="constrained")
palette = plt.get_cmap("gray_r").with_extremes(bad="#E69F00")
pictures = {
    "the true mask": image,
    "observed (orange: lost)": observed,
    "most probable mask": posterior.mode(),
    "P(pixel = 1)": mu.values,
    **{f"sample {k + 1}": X[k] for k in range(4)},
}
for axis, (title, picture) in zip(axes.flat, pictures.items(), strict=True):
    colours = "viridis" if title.startswith("P(") else palette
    axis.imshow(picture, cmap=colours, vmin=0, vmax=1, interpolation="nearest")
    axis.set_title(title, fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])

# %%
# Questions about whole masks
# ---------------------------
# Probabilities of single pixels do not say how uncertain the *area* is, as the errors of
# neighbouring pixels go together. Samples do. If the pixels were independent, with the same
# marginals, the area would seem to be better known than it is.

areas = X.sum(axis=(1, 2))
independent = np.sqrt(np.sum(mu * (1 - mu)))
low, high = np.quantile(areas, [0.05, 0.95])
print(f"expected area: {np.sum(mu):.1f} pixels by the marginals, {areas.mean():.1f} in the samples")
print(f"true area {image.sum()}; 90 % of the samples between {low:.0f} and {high:.0f}")
print(f"standard deviation {areas.std():.1f}; {independent:.1f} for independent pixels")

figure, axis = plt.subplots(figsize=(7.0, 3.4), layout="constrained")
grid = np.arange(areas.min() - 2, areas.max() + 3)
axis.hist(areas, bins=grid[::2], density=True, color="#56B4E9", label="500 exact samples")
normal = np.exp(-0.5 * ((grid - np.sum(mu)) / independent) ** 2)
normal /= independent * np.sqrt(2 * np.pi)
axis.plot(grid, normal, color="#D55E00", label="as if pixels were independent")
axis.axvline(image.sum(), color="black", linestyle="--", label="truth")
axis.set_xlabel("area of the mask (pixels)")
axis.set_ylabel("density")
axis.set_title("How large is the animal?")
axis.legend(frameon=False)
plt.show()
