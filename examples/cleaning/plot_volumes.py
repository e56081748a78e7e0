"""
Clean a volume whole, not slice by slice
========================================

In a stack of slices, a pixel has neighbours in the slices before and after it. A model of the
volume uses them and makes fewer mistakes, here learned from one noisy volume alone.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

# %%
# A volume: three balls that melt into each other, with a hole.

z, y, x = np.indices((20, 32, 32))


def ball(center, radius):
    return (z - center[0]) ** 2 + (y - center[1]) ** 2 + (x - center[2]) ** 2 < radius**2


clean = ball((10, 16, 11), 9) | ball((11, 11, 22), 6) | ball((7, 24, 20), 5)
clean &= ~ball((10, 16, 11), 4)
noisy = ls.Flips(0.2).sample(clean, seed=0)

# %%
# The same estimator takes both: a stack of 20 images, or one volume, ``noisy[None]``.

slices = ls.MaskDenoiser(modular="shared").fit(noisy)
volume = ls.MaskDenoiser(modular="shared").fit(noisy[None])
cleaned = {
    "slice by slice": slices.predict(noisy),
    "as a volume": volume.predict(noisy[None])[0],
}
print(f"noise found: {slices.noise_:.3f} and {volume.noise_:.3f} (true: 0.2)")
print(f"weights of the volume, along x, y and z: {volume.alpha_.round(2)}")
for name, found in cleaned.items():
    print(f"{name}: {np.mean(found != clean):.2%} wrong (noisy: {np.mean(noisy != clean):.1%})")

# %%
# Sections through the volume: one slice (top), and across all slices (bottom), where cleaning slice
# by slice leaves ragged outlines.

pictures = {"true": clean, "observed": noisy, **cleaned}
figure, axes = plt.subplots(2, 4, figsize=(9.0, 4.3), layout="constrained", height_ratios=[32, 20])
for column, (name, stack) in zip(axes.T, pictures.items(), strict=True):
    for axis, section in zip(column, (stack[6], stack[:, 15]), strict=True):
        axis.imshow(section, cmap="gray_r", interpolation="nearest")
        axis.set_xticks([])
        axis.set_yticks([])
    column[0].set_title(name, fontsize=11)
axes[0, 0].set_ylabel("slice z = 6", fontsize=11)
axes[1, 0].set_ylabel("section y = 15", fontsize=11)

# %%
# The errors of each slice: most is gained in the middle, where outlines hardly move from one slice
# to the next.

figure, axis = plt.subplots(figsize=(7.0, 3.4), layout="constrained")
for (name, found), colour in zip(cleaned.items(), ("#D55E00", "#0072B2"), strict=True):
    axis.plot((found != clean).sum(axis=(1, 2)), "o-", color=colour, label=name)
axis.set_xlabel("slice z")
axis.set_ylabel("wrong pixels (of 1024)")
axis.set_xticks(range(0, 20, 2))
axis.set_ylim(bottom=0)
axis.legend(frameon=False)
axis.grid(alpha=0.3)
plt.show()
