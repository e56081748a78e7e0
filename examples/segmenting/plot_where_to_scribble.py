"""
Cut out an object, and ask where to scribble next
=================================================

A few strokes on the object and on the background are enough for a first mask, the exact minimum
cut. Its probabilities say where it is in doubt, and so where the next stroke should go. Four turns
of this on a drawn picture, whose answer is known, and the average over many.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import logsuper as ls


def mark(marks, truth, row, column):
    """Return the strokes with a small square around a pixel: the answer of a user."""
    around = np.zeros(marks.shape, dtype=bool)
    around[max(0, row - 3) : row + 4, max(0, column - 3) : column + 4] = True
    return np.where(around & (marks == 0), np.where(truth == 1, 1, 2), marks).astype(np.uint8)


# %%
# With a picture of your own, ``image`` is any array (H, W) or (H, W, 3), and ``scribbles`` has 1 on
# the object, 2 on the background and 0 elsewhere. A session keeps all that does not depend on the
# strokes: the mask follows each new stroke in milliseconds, the probabilities take longer.

[image], [truth], [marks] = ls.make_scenes(1, shape=(120, 160), seed=7)
session = ls.ScribbleSegmenter().start(image)
turns = []
for turn in range(4):
    mask = session.segment(marks).mask
    found = session.probabilities()
    expected = np.minimum(found.probability, 1 - found.probability).mean()
    wrong = np.mean(mask != truth)
    [region] = found.suggest(1)
    print(f"turn {turn}: {wrong:.1%} wrong, {expected:.1%} expected; next stroke: {region.center}")
    turns.append((marks, found, region.center, wrong))
    marks = mark(marks, truth, *region.center)

# %%
# Top: the strokes so far (white on the object, black on the background) and the outline of the
# mask. Bottom: the probability of the object, with a circle around the place that the model would
# like to know about. An answer settles a region, not only the pixels under the stroke.

strokes = ListedColormap(["white", "black"])
figure, axes = plt.subplots(2, len(turns), figsize=(10.0, 4.2), layout="constrained")
for turn, (column, (drawn, found, center, wrong)) in enumerate(zip(axes.T, turns, strict=True)):
    column[0].imshow(image)
    column[0].imshow(np.ma.masked_equal(drawn, 0), cmap=strokes, vmin=1, vmax=2)
    column[0].contour(found.mask, [0.5], colors="white", linewidths=2.5)
    column[0].contour(found.mask, [0.5], colors="black", linewidths=1.0)
    column[0].set_title(f"turn {turn}: {wrong:.1%} wrong", fontsize=10)
    shown = column[1].imshow(found.probability, cmap="viridis", vmin=0, vmax=1)
    y, x = center
    column[1].plot(x, y, "o", markersize=14, markerfacecolor="none", markeredgecolor="white")
    for axis in column:
        axis.set_xticks([])
        axis.set_yticks([])
figure.colorbar(shown, ax=axes[1], label="P(object)", location="bottom", aspect=40, shrink=0.6)

# %%
# Is it worth asking?
# -------------------
# The same on ten smaller scenes, against strokes of the same size at random places. After six
# strokes, less is wrong where the model was allowed to ask.

curves = {"where suggested": [], "at random": []}
for seed in range(10):
    [image], [truth], [first] = ls.make_scenes(1, shape=(72, 96), seed=seed)
    session = ls.ScribbleSegmenter().start(image)
    rng = np.random.default_rng(seed)
    for how, errors in curves.items():
        marks, wrong = first, []
        for _ in range(7):
            wrong.append(np.mean(session.segment(marks).mask != truth))
            row, column = rng.integers(truth.shape)
            if how == "where suggested":
                regions = session.probabilities().suggest(1)
                row, column = regions[0].center if regions else (row, column)
            marks = mark(marks, truth, row, column)
        errors.append(wrong)

figure, axis = plt.subplots(figsize=(7.0, 3.4), layout="constrained")
for (how, errors), colour in zip(curves.items(), ("#0072B2", "#D55E00"), strict=True):
    mean, error = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / np.sqrt(len(errors))
    axis.errorbar(
        np.arange(7), 100 * mean, 100 * error, fmt="o-", color=colour, capsize=3, label=how
    )
    print(f"{how}: {mean[0]:.1%} wrong before, {mean[-1]:.1%} after six strokes")
axis.set_xlabel("additional strokes")
axis.set_ylabel("wrong pixels (%)")
axis.set_title("Mean and standard error over 10 scenes")
axis.set_ylim(bottom=0)
axis.legend(frameon=False)
axis.grid(alpha=0.3)
plt.show()
