"""
Exact samples near the critical coupling
========================================

Without fields, a grid of pixels has a critical coupling, log(1 + sqrt 2) nats per edge on a large
square grid: below it pixels agree over short distances only, above it one label prevails. Coupling
from the past draws *exact* samples, and how far back it has to go shows how hard the model is.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

shape = (64, 64)
fh, fv = ls.grid_cuts(shape)
critical = np.log(1 + np.sqrt(2))
print(f"critical coupling: {critical:.4f}")

# %%
# Below the critical coupling, exact samples are cheap; at it, they can still be had. Above it, the
# two chains that start from all 0 and from all 1 take very long to meet. There
# :exc:`logsuper.NotCoalesced` is raised in place of a biased sample, and cluster moves
# (``swendsen_wang``) are the better sampler, though not an exact one.

shares = (0.5, 0.9, 1.0, 1.2)
samples = {}
for share in shares:
    model = ls.LogSupermodular(share * critical * (fh + fv))
    method = "cftp" if share <= 1 else "swendsen_wang"
    options = {"max_iter": 2**17} if method == "cftp" else {}
    start = time.perf_counter()
    samples[share] = model.sample(8, method=method, seed=1, **options)
    seconds = (time.perf_counter() - start) / 8
    print(f"{share:4.0%} of the critical coupling: {seconds:.3f} s per sample by {method}")

try:
    ls.LogSupermodular(1.2 * critical * (fh + fv)).sample(1, seed=0, max_iter=1024)
except ls.NotCoalesced as error:
    print(f"NotCoalesced: {str(error).split('.')[0]}")

# %%
# One sample of each. At the critical coupling there are patches of all sizes.

figure, axes = plt.subplots(1, 4, figsize=(9.6, 2.8), layout="constrained")
for axis, (share, drawn) in zip(axes, samples.items(), strict=True):
    axis.imshow(drawn[0], cmap="gray_r", interpolation="nearest")
    axis.set_title(f"{share:.0%} of the critical coupling", fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])

# %%
# How much two pixels agree, over the distance between them, on average over the eight samples: the
# closer to the critical coupling, the slower the correlation falls. Above it, it does not vanish.

figure, axis = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
distances = np.arange(0, 17)
shades = plt.get_cmap("viridis")(np.linspace(0.0, 0.85, len(shares)))
for (share, drawn), colour in zip(samples.items(), shades, strict=True):
    spins = 2.0 * drawn - 1.0
    agreement = [np.mean(spins[..., : 64 - d] * spins[..., d:]) for d in distances]
    axis.plot(distances, agreement, "o-", markersize=4, color=colour, label=f"{share:.0%}")
axis.axhline(0.0, color="gray", linewidth=1)
axis.set_xlabel("distance along a row (pixels)")
axis.set_ylabel("correlation")
axis.set_title("Correlation of two pixels")
axis.legend(frameon=False, title="of the critical coupling", ncols=2)
axis.grid(alpha=0.3)
plt.show()
