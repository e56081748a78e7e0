"""
A random field behind a classifier
==================================

A classifier judges each pixel by its colour, but not by the labels of its neighbours.
:class:`logsuper.MaskCRF` puts a random field behind it. It learns what the log-odds of the
classifier are worth on new images and how strongly neighbours agree.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import logsuper as ls

TRAIN = 16
masks = ls.make_silhouettes(26, shape=(32, 32), seed=0)
noise = np.random.default_rng(0).normal(size=(*masks.shape, 3))
images = masks[..., None] * [0.9, 0.3, -0.6] + noise  # an animal is somewhat redder and less blue
new, truth = images[TRAIN:], masks[TRAIN:]

# %%
# Any scikit-learn classifier will do. ``features`` says what it sees of a pixel: here its colour.
# (By default also means around it, and its place.) The picture is so noisy that contrast between
# two pixels says nothing, hence ``edges="uniform"``.


def colour(image):
    return image


crf = ls.MaskCRF(LogisticRegression(), edges="uniform", features=colour)
crf.fit(images[:TRAIN], masks[:TRAIN])

# %%
# The classifier is also trained without each part of the images, so that the field sees it as sure
# as it is on new images. On images that neither has seen:

alone, p = expit(crf.predict_unary(new)), crf.predict_proba(new)
for name, found in (("classifier alone", alone), ("field behind it", p)):
    wrong = np.mean((found > 0.5) != truth)
    print(f"{name:16} wrong {wrong:.1%}, log loss {log_loss(truth.ravel(), found.ravel()):.3f}")
print(f"weights of the couplings, along rows and columns: {crf.alpha_[0].round(2)}")
print(f"weight of the log-odds: {crf.beta_[0]:.2f}")

figure, axes = plt.subplots(5, 5, figsize=(7.6, 7.4), layout="constrained")
rows = {
    "image": (np.clip(0.5 + new / 6, 0, 1), {}),
    "classifier": (alone, {"cmap": "viridis", "vmin": 0, "vmax": 1}),
    "field": (p, {"cmap": "viridis", "vmin": 0, "vmax": 1}),
    "mask": (crf.predict(new), {"cmap": "gray_r"}),
    "true": (truth, {"cmap": "gray_r"}),
}
for line, (name, (pictures, style)) in zip(axes, rows.items(), strict=True):
    for axis, picture in zip(line, pictures, strict=False):
        shown = axis.imshow(picture, interpolation="nearest", **style)
        axis.set_xticks([])
        axis.set_yticks([])
        if name == "field":
            probability = shown
    line[0].set_ylabel(name, fontsize=11)
figure.colorbar(probability, ax=axes[1:3], label="P(pixel = 1)", aspect=14)

# %%
# How large is the animal?
# ------------------------
# Only a distribution of whole masks can say. Each sample is a mask; 90 % of the samples lie in the
# interval. The intervals hold fewer true areas than that, and the animals are larger than most
# samples: samples come from the field itself, without the calibration of ``predict_proba``, and the
# field is a simple model, which loses legs. Take such intervals for a lower bound on the
# uncertainty.

sizes = crf.sample_posterior(new, 100, random_state=0).sum(axis=(2, 3))
low, high = np.quantile(sizes, [0.05, 0.95], axis=1)
true = truth.sum(axis=(1, 2))
middle = np.median(sizes, axis=1)
print(f"true size inside of the interval: {np.sum((low <= true) & (true <= high))} of {len(true)}")
print(f"larger than the median of the samples: {np.sum(true > middle)} of {len(true)}")

figure, axis = plt.subplots(figsize=(7.0, 3.4), layout="constrained")
k = np.arange(len(true))
axis.errorbar(
    k, middle, [middle - low, high - middle], fmt="o", color="#0072B2", capsize=4,
    label="median and 90 % of the samples",
)  # fmt: skip
axis.plot(k, true, "D", color="#D55E00", label="truth")
axis.set_xlabel("test image")
axis.set_ylabel("area (pixels)")
axis.set_xticks(k)
axis.set_title("The area of the animal, with its uncertainty")
axis.legend(frameon=False)
axis.grid(alpha=0.3)
plt.show()
