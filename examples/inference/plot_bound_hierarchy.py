"""
The hierarchy of bounds, after figure 1 of the paper
====================================================

Two clusters of points, joined to a complete graph whose edges are heavy between near points: the
data on which Shpakova and Bach compare bounds on log Z. As more and more labels of points are
given, the rest becomes easier, and all bounds approach the truth.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

# %%
# Ten points in each cluster, so that the exact value can be enumerated.

points, labels, cut = ls.gaussian_mixture_graph(points=10, decay=1.0, seed=0)
model = ls.LogSupermodular(cut)
order = np.random.default_rng(0).permutation(20)

# %%
# Fix the labels of 0, 2, 4, ... points to their clusters, and bound what is left.

counts = np.arange(0, 19, 2)
options = {"logistic": {"n_samples": 1000, "seed": 0}, "power": {"n_samples": 1000, "seed": 0}}
names = ("lfield", "logistic", "trw", "power", "exact", "bethe", "mean_field", "superdifferential")
values, noise = {name: [] for name in names}, {name: [] for name in names}
for count in counts:
    given = model.condition({int(i): int(labels[i]) for i in order[:count]})
    for name in names:
        bound = given.log_partition(name, **options.get(name, {}))
        values[name].append(bound.value)
        noise[name].append(bound.stderr or 0.0)

# %%
# With few labels given, the L-field bound is far above the exact value; perturbations with logistic
# noise are much tighter. The power bound is tighter still, but noisier (bars: one standard error).
# Below, belief propagation is closer than mean field, and both than the superdifferential bound.

excess = {name: np.array(v) - np.array(values["exact"]) for name, v in values.items()}
for name in names:
    print(f"{name:18} less the exact value: {excess[name][0]:7.3f} with no label given, ", end="")
    print(f"{excess[name][-1]:7.3f} with {counts[-1]}")

colours = {
    "lfield": "#D55E00",
    "logistic": "#E69F00",
    "trw": "#009E73",
    "power": "#CC79A7",
    "bethe": "#0072B2",
    "mean_field": "#56B4E9",
    "superdifferential": "#000000",
}
figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained", width_ratios=[1, 1.6])
for value, marker, colour in ((1, "o", "#D55E00"), (0, "s", "#0072B2")):
    mine = labels == value
    axes[0].plot(*points[mine].T, marker, color=colour, label=f"cluster {value}")
weights = cut.weights / cut.weights.max()
for (i, j), weight in zip(cut.edges, weights, strict=True):
    axes[0].plot(*points[[i, j]].T, color="gray", alpha=float(weight), linewidth=1, zorder=0)
axes[0].set_title("points, and the weights of edges", fontsize=11)
axes[0].legend(frameon=False)
axes[0].set_aspect("equal")
for name, colour in colours.items():
    style = "o--" if name in options else "o-"
    axes[1].errorbar(
        counts, excess[name], noise[name], fmt=style, markersize=4, color=colour, label=name
    )
axes[1].axhline(0.0, color="gray", linewidth=1)
axes[1].set_xticks(counts)
axes[1].set_xlabel("number of points whose label is given")
axes[1].set_ylabel("bound less log Z (nats)")
axes[1].set_title("dashed: estimated from samples", fontsize=11)
axes[1].legend(frameon=False)
axes[1].grid(alpha=0.3)
plt.show()
