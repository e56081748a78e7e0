"""
The density of digits
=====================

:class:`logsuper.LogSupermodularDensity` learns the distribution of rows of zeros and ones: here
the handwritten digits of scikit-learn, 8 x 8 pixels each. The density is normalised, so that it
can be compared with others on digits that it has not seen, and it can be sampled exactly.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import logsuper as ls

digits, labels = load_digits(return_X_y=True)
X = (digits > 8).astype(int)
train, test, _, kind = train_test_split(X, labels, random_state=0, stratify=labels)

# %%
# One field, and a mixture of ten: each component is a forest of attractive pairs of pixels. Against
# independent pixels, both give much higher probabilities to new digits.

field = ls.LogSupermodularDensity("forest", n_components=1).fit(train)
mixture = ls.LogSupermodularDensity(n_components=10, n_init=1).fit(train)
rate = (train.sum(axis=0) + 1) / (len(train) + 2)
independent = np.mean(test @ np.log(rate) + (1 - test) @ np.log1p(-rate))
for name, value in (
    ("independent pixels", independent),
    ("one field", field.score_samples(test).mean()),
    ("mixture of 10 fields", mixture.score_samples(test).mean()),
):
    print(f"{name:21} {value:7.2f} nats per digit")

# %%
# Samples. A single field knows which pixels go together; the mixture also knows that there are
# several shapes, and some of its samples can be read.

figure, axes = plt.subplots(3, 10, figsize=(9.0, 3.0), layout="constrained")
rows = {
    "digits": test,
    "one field": field.sample(10, random_state=0),
    "mixture": mixture.sample(10, random_state=0),
}
for line, (name, images) in zip(axes, rows.items(), strict=True):
    for axis, image in zip(line, images, strict=False):
        axis.imshow(image.reshape(8, 8), cmap="gray_r", interpolation="nearest")
        axis.set_xticks([])
        axis.set_yticks([])
    line[0].set_ylabel(name, fontsize=10)

# %%
# The components of the mixture are prototypes: the probability of each pixel, with the weight.

figure, axes = plt.subplots(2, 5, figsize=(8.0, 3.8), layout="constrained")
for axis, c in zip(axes.flat, np.argsort(-mixture.weights_), strict=True):
    p = mixture.models_[c].marginals("exact").values
    shown = axis.imshow(p.reshape(8, 8), cmap="viridis", vmin=0, vmax=1)
    axis.set_title(f"weight {mixture.weights_[c]:.2f}", fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])
figure.colorbar(shown, ax=axes, label="P(pixel = 1)")

# %%
# Unlikely digits
# ---------------
# The log-probability of a digit says how usual it is: the least and the most likely of the test
# set.

scores = mixture.score_samples(test)
order = np.argsort(scores)
figure, axes = plt.subplots(2, 10, figsize=(9.0, 2.2), layout="constrained")
for line, chosen, name in zip(axes, (order[:10], order[-10:]), ("least", "most"), strict=True):
    for axis, i in zip(line, chosen, strict=True):
        axis.imshow(test[i].reshape(8, 8), cmap="gray_r")
        axis.set_title(f"{kind[i]}: {scores[i]:.0f}", fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
    line[0].set_ylabel(f"{name}\nlikely", fontsize=10)
plt.show()
