"""
Objects from scribbles
======================

:func:`logsuper.segment` takes a picture and a few strokes, and returns a mask, the exact minimum
cut of a model of colours, distances and contrast, with a calibrated probability for each pixel.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import logsuper as ls

images, masks, scribbles = ls.make_scenes(3, shape=(120, 160), seed=11)
results = [ls.segment(image, marks) for image, marks in zip(images, scribbles, strict=True)]

for k, (found, truth) in enumerate(zip(results, masks, strict=True)):
    union = np.sum(found.mask | (truth == 1))
    overlap = np.sum(found.mask & (truth == 1)) / union
    sure = np.abs(found.probability - 0.5) > 0.4
    mistakes = np.mean((found.probability > 0.5)[sure] != truth[sure])
    print(
        f"scene {k}: {np.mean(found.mask != truth):.1%} wrong, intersection over union "
        f"{overlap:.2f}; {sure.mean():.0%} of the pixels at least 90 % sure, "
        f"of these {mistakes:.1%} wrong"
    )

# %%
# The animals have patches of two colours, the background patches of three, and the light changes
# across the picture. The strokes (white on the object, black on the background) touch some of the
# patches only. A patch that no stroke has touched can be missed, such as the leg in the third
# scene.

strokes = ListedColormap(["white", "black"])
figure, axes = plt.subplots(3, 3, figsize=(9.0, 7.0), layout="constrained")
for k, found in enumerate(results):
    axes[0, k].imshow(images[k])
    axes[0, k].imshow(np.ma.masked_equal(scribbles[k], 0), cmap=strokes, vmin=1, vmax=2)
    cut_out = np.where(found.mask[..., None], images[k], 255)
    axes[1, k].imshow(cut_out)
    shown = axes[2, k].imshow(found.probability, cmap="viridis", vmin=0, vmax=1)
for axis, name in zip(axes[:, 0], ("picture and strokes", "cut out", "probability"), strict=True):
    axis.set_ylabel(name, fontsize=11)
for axis in axes.flat:
    axis.set_xticks([])
    axis.set_yticks([])
figure.colorbar(shown, ax=axes[2], label="P(object)", location="bottom", aspect=40, shrink=0.6)
plt.show()
