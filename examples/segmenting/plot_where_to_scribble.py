"""Cut an object out of a picture from a few strokes, and ask where the next one should go.

The pictures are drawn (`make_scenes`), so that the answer is known; with your own, `image` is any
array (H, W) or (H, W, 3), and `scribbles` has 1 on the object, 2 on the background and 0 elsewhere.
"""

import numpy as np

import logsuper as ls

images, masks, scribbles = ls.make_scenes(1, shape=(120, 160), seed=4)
image, truth, marks = images[0], masks[0], scribbles[0]

session = ls.ScribbleSegmenter().start(image)  # all that does not depend on the strokes
for turn in range(4):
    found = session.segment(marks)  # the exact cut: again and again, as strokes are added
    print(f"stroke {turn}: {100 * np.mean(found.mask != truth):.1f} % wrong", end="")
    found = session.probabilities()  # calibrated; takes longer
    wrong = np.where(found.mask, 1 - found.probability, found.probability).mean()
    print(f", {100 * wrong:.1f} % expected wrong", end="")
    regions = found.suggest(1)
    if not regions:
        break
    row, column = regions[0].center
    print(f"; next near row {row}, column {column}")
    # the user marks what is there: here a small square, with the labels of the truth
    around = np.zeros(marks.shape, dtype=bool)
    around[max(0, row - 3) : row + 4, max(0, column - 3) : column + 4] = True
    marks = np.where(around & (marks == 0), np.where(truth == 1, 1, 2), marks).astype(np.uint8)
print()
