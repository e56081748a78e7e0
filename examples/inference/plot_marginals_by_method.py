"""
Marginals by several methods, against exact ones
================================================

The probability of each pixel of a noisy mask, by eight methods, against the exact probability. The
methods differ in speed, in bias and in what they prove. Which of them to trust with strong
coupling is easy to see.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

image = ls.make_silhouettes(1, shape=(16, 24), seed=3)[0]
fh, fv = ls.grid_cuts(image.shape)
prior = ls.LogSupermodular(1.0 * fh + 1.0 * fv)
posterior = prior.observe(ls.Flips(0.25), ls.Flips(0.25).sample(image, seed=3))
exact = posterior.marginals("exact")
print(exact)

# %%
# ``sampling`` averages over exact samples; ``strips`` brackets every marginal with a certificate;
# ``bethe`` is loopy belief propagation.

methods = {
    "strips": {},
    "bethe": {},
    "mean_field": {},
    "trw": {},
    "lfield": {},
    "logistic": {"n_samples": 400, "seed": 0},
    "power": {"n_samples": 400, "seed": 0},
    "sampling": {"n_samples": 400, "seed": 0},
}
found = {}
for name, options in methods.items():
    start = time.perf_counter()
    found[name] = posterior.marginals(name, **options)
    seconds = time.perf_counter() - start
    error = np.abs(found[name] - exact.values)
    print(
        f"{name:11} error {error.mean():.4f} on average, {error.max():.3f} at most, {seconds:.3f} s"
    )

# %%
# A method without error has all its points on the diagonal. Mean field is too sure: its points are
# pulled towards 0 and 1. L-field marginals, those of tree reweighting and those of perturbations
# are pulled towards one half. ``marginals()`` without a name would have chosen an exact method
# here, and strips for larger images.

figure, axes = plt.subplots(
    2, 4, figsize=(9.6, 5.2), sharex=True, sharey=True, layout="constrained"
)
for axis, (name, values) in zip(axes.flat, found.items(), strict=True):
    axis.plot([0, 1], [0, 1], color="gray", linewidth=1)
    axis.plot(exact.values.ravel(), np.ravel(values), "o", markersize=3, alpha=0.5, color="#0072B2")
    axis.set_title(f"{name}: mean error {np.abs(values - exact.values).mean():.3f}", fontsize=10)
    axis.set_aspect("equal")
for axis in axes[1]:
    axis.set_xlabel("exact probability")
for axis in axes[:, 0]:
    axis.set_ylabel("probability found")
plt.show()
