"""
Certified intervals, as narrow as you pay for
=============================================

On image grids, ``strips`` proves a lower and an upper bound on log Z and on the probability of
every pixel. It looks at windows of a few columns whose surroundings are set to the worst cases;
each additional column doubles the work per window and narrows the intervals.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

image = ls.make_silhouettes(1, shape=(40, 50), seed=8)[0]
fh, fv = ls.grid_cuts(image.shape)
channel = ls.Missing(0.3, ls.Flips(0.15))
observed = channel.sample(image, seed=8)
posterior = ls.LogSupermodular(1.2 * fh + 1.2 * fv).observe(channel, observed)

# %%
# Wider windows
# -------------

windows = [1, 2, 3, 4, 5, 6, 7]
marginals, widths = [], []
for window in windows:
    marginals.append(posterior.marginals("strips", window=window))
    bound = posterior.log_partition("strips", window=window)
    widths.append(bound.interval[1] - bound.interval[0])
    widest = np.max(marginals[-1].upper - marginals[-1].lower)
    print(f"window {window}: log Z known to {widths[-1]:.2g} nats, probabilities to {widest:.2g}")

figure, axis = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
widest = [np.max(m.upper - m.lower) for m in marginals]
typical = [np.median(m.upper - m.lower) for m in marginals]
axis.semilogy(windows, widths, "s-", color="#D55E00", label="log Z (nats)")
axis.semilogy(windows, widest, "o-", color="#0072B2", label="widest of the probabilities")
axis.semilogy(windows, typical, "^-", color="#009E73", label="median of the probabilities")
axis.set_xlabel("columns of a window")
axis.set_ylabel("width of the certified interval")
axis.legend(frameon=False)
axis.grid(alpha=0.3)

# %%
# Where it is hard
# ----------------
# With a narrow window, intervals are wide where the evidence is thin or contradictory. The picture
# of the widths is a picture of what the proof finds hard, not of what is uncertain: a pixel may
# have a probability of one half, exactly.

figure, axes = plt.subplots(2, 2, figsize=(8.6, 6.2), layout="constrained")
palette = plt.get_cmap("gray_r").with_extremes(bad="#E69F00")
axes[0, 0].imshow(observed, cmap=palette, interpolation="nearest")
axes[0, 0].set_title("observed (orange: lost)", fontsize=11)
shown = axes[0, 1].imshow(marginals[-1].values, cmap="viridis", vmin=0, vmax=1)
axes[0, 1].set_title("probability", fontsize=11)
figure.colorbar(shown, ax=axes[0, 1], shrink=0.8, label="P(pixel = 1)")
limits = {"vmin": 0.0, "vmax": float(widest[1])}
for axis, k in zip(axes[1], (1, 3), strict=True):
    width = marginals[k].upper - marginals[k].lower
    shown = axis.imshow(width, cmap="magma", **limits)
    axis.set_title(f"width of the intervals, window {windows[k]}", fontsize=11)
figure.colorbar(shown, ax=axes[1], shrink=0.8, label="upper less lower")
for axis in axes.flat:
    axis.set_xticks([])
    axis.set_yticks([])
plt.show()
