"""
Are the probabilities right?
============================

Of the pixels that are given a probability of 80 %, four in five should be ones. A reliability
diagram shows whether they are: here for a model that was learned with clean masks, and for one
that was learned from noisy masks alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss

import logsuper as ls

clean = ls.make_silhouettes(100, shape=(40, 40), seed=0)
noisy = ls.datasets.corrupt(clean, ls.Flips(0.15), seed=0)
test, truth = noisy[40:], clean[40:].ravel()
models = {
    "learned with clean masks": ls.MaskDenoiser().fit(noisy[:40], clean[:40]),
    "learned from noisy masks": ls.MaskDenoiser().fit(noisy[:40]),
}
found = {name: model.predict_proba(test).ravel() for name, model in models.items()}

# %%
# A simple number to compare with, between 0 and 1 but not calibrated: the share of ones in the 3 x
# 3 pixels around.

padded = np.pad(test, ((0, 0), (1, 1), (1, 1)))
votes = sum(padded[:, i : i + 40, j : j + 40] for i in range(3) for j in range(3))
found["share of ones in 3 x 3 pixels"] = np.clip(votes / 9, 0.01, 0.99).ravel()


def calibration_error(p):
    """Return the mean distance between probability and frequency, weighted over 15 bins."""
    frequency, mean = calibration_curve(truth, p, n_bins=15)
    counts = np.histogram(p, np.linspace(0, 1, 16))[0]
    return float(np.sum(np.abs(frequency - mean) * counts[counts > 0]) / counts.sum())


for name, p in found.items():
    print(
        f"{name:30} {np.mean((p > 0.5) != truth):.2%} wrong, log loss {log_loss(truth, p):.3f}, "
        f"calibration error {calibration_error(p):.2%}"
    )

# %%
# On the diagonal, probabilities are right: those of both models nearly are. Below, how many pixels
# have which probability: most are decided, and few make up the middle of the curves.

figure, axes = plt.subplots(
    2, 1, figsize=(6.4, 7.0), sharex=True, layout="constrained", height_ratios=[3, 1]
)
axes[0].plot([0, 1], [0, 1], color="gray", linewidth=1)
for (name, p), (colour, style) in zip(
    found.items(), (("#0072B2", "o-"), ("#D55E00", "s-"), ("#999999", "^--")), strict=True
):
    frequency, mean = calibration_curve(truth, p, n_bins=10)
    axes[0].plot(mean, frequency, style, color=colour, label=name)
    axes[1].hist(p, bins=np.linspace(0, 1, 11), histtype="step", linewidth=1.5, color=colour)
axes[0].set_ylabel("frequency of ones")
axes[0].set_title("Reliability on masks that were not learned from")
axes[0].legend(frameon=False)
axes[0].grid(alpha=0.3)
axes[1].set_yscale("log")
axes[1].set_ylabel("pixels")
axes[1].set_xlabel("probability")
axes[1].grid(alpha=0.3)
plt.show()
