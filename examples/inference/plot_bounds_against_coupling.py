"""
Bounds on log Z against the strength of coupling
================================================

Every method has couplings for which it is tight, and others for which it is not. On a small grid
the exact log-partition function is known, so that the errors of all bounds can be seen, from
independent pixels to pixels that nearly all agree.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

shape = (10, 10)
fh, fv = ls.grid_cuts(shape)
field = np.random.default_rng(0).normal(scale=0.5, size=100)
couplings = np.linspace(0.0, 2.0, 21)
models = [ls.LogSupermodular(a * (fh + fv) - ls.Modular(field)) for a in couplings]

# %%
# All methods are asked by name. Two of them, marked by dashes below, are upper bounds that are
# estimated from samples, here 200 each; the others are certified.

exact = np.array([m.log_partition("exact").value for m in models])
above = {
    "lfield": {},
    "logistic": {"n_samples": 200, "seed": 0},
    "power": {"n_samples": 200, "seed": 0},
    "trw": {},
}
below = {"superdifferential": {}, "mean_field": {}, "bethe": {}}
errors = {
    name: np.array([m.log_partition(name, **options).value for m in models]) - exact
    for name, options in {**above, **below}.items()
}
brackets = [m.bracket() for m in models]

# %%
# Above: the L-field bound is the loosest, and, as the paper says, logistic perturbations improve on
# it. The power bound is the tightest for weak coupling, tree reweighting for strong coupling.
# Below: belief propagation (Bethe) bounds attractive models from below, and is closest everywhere.

colours = {
    "lfield": "#D55E00",
    "logistic": "#E69F00",
    "power": "#CC79A7",
    "trw": "#009E73",
    "superdifferential": "#000000",
    "mean_field": "#56B4E9",
    "bethe": "#0072B2",
}
figure, axes = plt.subplots(2, 1, figsize=(7.6, 6.4), sharex=True, layout="constrained")
for axis, names, side in zip(axes, (above, below), ("above", "below"), strict=True):
    for name in names:
        style = "o--" if name in ("logistic", "power") else "o-"
        axis.plot(couplings, errors[name], style, markersize=4, color=colours[name], label=name)
    axis.axhline(0.0, color="black", linewidth=1)
    axis.set_ylabel("bound less log Z (nats)")
    axis.set_title(f"Bounds from {side}", fontsize=11)
    axis.legend(frameon=False)
    axis.grid(alpha=0.3)
axes[1].set_xlabel("coupling: cost of two neighbours that differ (nats)")

# %%
# The errors in numbers, and those of :meth:`logsuper.LogSupermodular.bracket`, which chooses among
# the certified methods (on a grid of this size it can be exact):

for name, error in errors.items():
    print(
        f"{name:18} {np.abs(error).max():7.3f} nats at most, {np.abs(error).mean():.3f} on average"
    )
print(f"{'bracket()':18} {max(b.width for b in brackets):7.1e} nats wide at most")
plt.show()
