"""
Images of many sizes, one model
===============================

A folder is seldom uniform. :class:`logsuper.MaskDenoiser` takes a list of images of different
shapes and learns one model from all of them. Its weights mean the same for every size, so that it
also cleans sizes that it has never seen.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

sizes = [(30, 30), (40, 60), (60, 40), (80, 80), (50, 110)]
clean = [ls.make_silhouettes(1, size, seed=k)[0] for k, size in enumerate(4 * sizes)]
noisy = [ls.Flips(0.15).sample(mask, seed=k) for k, mask in enumerate(clean)]

denoiser = ls.MaskDenoiser().fit(noisy)
masks = denoiser.predict(noisy)
print(f"noise that was found: {denoiser.noise_:.3f} (true: 0.15)")

# %%
# Large images are easier: relative to their area, they have shorter outlines.

for size in sizes:
    same = [k for k, mask in enumerate(clean) if mask.shape == size]
    wrong = np.mean([np.mean(masks[k] != clean[k]) for k in same])
    print(f"{size[0]:3} x {size[1]:3}: {wrong:.2%} wrong")

# %%
# All at one scale, noisy above, clean below.

figure, axes = plt.subplots(
    2, 5, figsize=(9.0, 4.4), layout="constrained", width_ratios=[size[1] for size in sizes]
)
for column, before, after in zip(axes.T, noisy, masks, strict=False):
    for axis, picture in zip(column, (before, after), strict=True):
        axis.imshow(picture, cmap="gray_r", interpolation="nearest")
        axis.set_xticks([])
        axis.set_yticks([])
    column[0].set_title(f"{before.shape[0]} x {before.shape[1]}", fontsize=10)
axes[0, 0].set_ylabel("observed", fontsize=11)
axes[1, 0].set_ylabel("cleaned", fontsize=11)

# %%
# A size that was not among them, ten times as large as the largest.

large = ls.make_silhouettes(1, (200, 320), seed=77)[0]
observed = ls.Flips(0.15).sample(large, seed=77)
found = denoiser.predict(observed[None])[0]
print(
    f"200 x 320: {np.mean(observed != large):.1%} wrong before, {np.mean(found != large):.2%} after"
)

figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.0), layout="constrained")
for axis, title, picture in zip(axes, ("observed", "cleaned"), (observed, found), strict=True):
    axis.imshow(picture, cmap="gray_r", interpolation="nearest")
    axis.set_title(title, fontsize=11)
    axis.set_xticks([])
    axis.set_yticks([])
plt.show()
