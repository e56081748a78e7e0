"""
How noisy are these masks?
==========================

The share of flipped pixels can be estimated from noisy masks alone, without a model of the shapes:
clean shapes have hardly any single pixels, ends and thin lines, so what there is of them is noise.
The example looks at the estimates and their errors, at many rates.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls
from logsuper.learning import estimate_noise

# %%
# Twelve folders of 20 masks for each rate; one estimate per folder.

rates = np.array([0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3])
folders = [ls.make_silhouettes(20, shape=(50, 50), seed=k) for k in range(12)]
estimates = np.array(
    [
        [
            float(estimate_noise(ls.Flips(rate).sample(clean, seed=k)).rate)
            for k, clean in enumerate(folders)
        ]
        for rate in rates
    ]
)
for rate, found in zip(rates, estimates, strict=True):
    print(f"true {rate:.2f}: estimates {found.mean():.4f} on average, deviation {found.std():.4f}")

# %%
# Left: the estimates against the truth. Right: their errors in relation to the rate.

figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
axes[0].plot([0.008, 0.4], [0.008, 0.4], color="gray", linewidth=1, label="exact")
for axis in axes:
    axis.set_xscale("log")
    axis.set_xticks(rates, [f"{100 * rate:g}" for rate in rates])
    axis.minorticks_off()
    axis.set_xlabel("true share of flipped pixels (%)")
    axis.grid(alpha=0.3)
axes[0].set_yscale("log")
axes[0].set_yticks(rates, [f"{100 * rate:g}" for rate in rates])
axes[0].minorticks_off()
axes[0].plot(
    np.repeat(rates, 12), estimates.ravel(), "o", alpha=0.5, color="#0072B2", label="folder"
)
axes[0].set_ylabel("estimate (%)")
axes[0].legend(frameon=False)
off = 100 * (estimates - rates[:, None])
axes[1].errorbar(rates, off.mean(axis=1), off.std(axis=1), fmt="o", color="#0072B2", capsize=4)
axes[1].axhline(0.0, color="gray", linewidth=1)
axes[1].set_ylabel("estimate less truth (percentage points)")
axes[1].set_title("mean and deviation over 12 folders", fontsize=11)

# %%
# More flips of one kind
# ----------------------
# If zeros and ones flip at different rates, ask for ``kind="asymmetric"``.

clean = ls.make_silhouettes(60, shape=(50, 50), seed=50)
noisy = ls.AsymmetricFlips(0.05, 0.2).sample(clean, seed=50)
found = estimate_noise(noisy, kind="asymmetric")
print(f"zeros that became ones: {float(found.on):.3f} (true: 0.05)")
print(f"ones that became zeros: {float(found.off):.3f} (true: 0.20)")
plt.show()
