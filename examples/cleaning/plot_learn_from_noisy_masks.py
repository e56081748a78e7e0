"""
Learn to clean masks from noisy ones alone
==========================================

Nobody says what is clean, or how noisy it is: :class:`logsuper.MaskDenoiser` learns the rate of
flipped pixels and the weights of the model from noisy masks, some of whose pixels are missing, and
cleans masks that it has not seen.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

clean = ls.make_silhouettes(60, shape=(40, 40), seed=0)
noisy = ls.datasets.corrupt(clean, ls.Missing(0.05, ls.Flips(0.1)), seed=0)  # NaN: lost pixels

denoiser = ls.MaskDenoiser(random_state=0).fit(noisy[:40])
print(f"estimated noise {denoiser.noise_:.3f} (true: 0.1)")
print(f"weights of the cuts {denoiser.alpha_.round(2)}, of the observation {denoiser.scale_:.2f}")

# %%
# On twenty other masks: most of the wrong pixels are mended, and the missing ones filled in.

test, truth = noisy[40:], clean[40:]
seen = ~np.isnan(test)
masks, p = denoiser.predict(test), denoiser.predict_proba(test)
print(f"wrong before: {np.mean(test[seen] != truth[seen]):.1%} of the pixels that were seen")
print(f"wrong after:  {1 - denoiser.score(test, truth):.1%} of all pixels")

figure, axes = plt.subplots(4, 6, figsize=(9.0, 6.4), layout="constrained")
palette = plt.get_cmap("gray_r").with_extremes(bad="#E69F00")
rows = (
    ("true", truth, "gray_r"),
    ("observed", test, palette),
    ("cleaned", masks, "gray_r"),
    ("probability", p, "viridis"),
)
for line, (name, images, colours) in zip(axes, rows, strict=True):
    for axis, image in zip(line, images, strict=False):
        shown = axis.imshow(image, cmap=colours, vmin=0, vmax=1, interpolation="nearest")
        axis.set_xticks([])
        axis.set_yticks([])
    line[0].set_ylabel(name, fontsize=11)
figure.colorbar(shown, ax=axes, label="P(pixel = 1)", shrink=0.25, anchor=(0, 0.02))
figure.suptitle("Orange pixels were lost; the probability shows where doubt is left")

# %%
# Can one believe the probabilities? Of the pixels that are said to be sure, few are wrong.

sure = np.abs(p - 0.5) > 0.45
print(
    f"{sure.mean():.1%} of the pixels are at least 95 % sure; of these "
    f"{np.mean((p > 0.5)[sure] != truth[sure]):.2%} are wrong"
)
plt.show()
