"""
Groups that agree: concave functions of a count
===============================================

A concave function of the number of ones in a group makes each further one cheaper: few members of
a group are 1, or many. The example has noisy tests of pupils in classes, where outbreaks hit whole
classes, and finds who is ill from tests of which one in five is wrong.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import gammaln, logsumexp

import logsuper as ls

# %%
# The prior
# ---------
# A class is hit by an outbreak with probability 1/4. Then 70 % of the pupils are ill, else 3 %. The
# probability of x depends on the number k of ones alone, and minus its logarithm is minus a
# log-sum-exp of linear functions of k: concave. So this mixture is log-supermodular.

pupils, rates, shares = 25, np.array([0.03, 0.7]), np.array([0.75, 0.25])
k = np.arange(pupils + 1)
each = np.log(rates)[:, None] * k + np.log1p(-rates)[:, None] * (pupils - k)
g = -logsumexp(each + np.log(shares)[:, None], axis=0)
prior = ls.LogSupermodular(ls.ConcaveCardinality(g))

binomial = gammaln(pupils + 1) - gammaln(k + 1) - gammaln(pupils - k + 1)
figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.3), layout="constrained")
axes[0].plot(k, g - g[0], "o-", markersize=4, color="#0072B2")
axes[0].set_ylabel("g(k) - g(0)  (nats)")
axes[0].set_title("A concave function of the count", fontsize=11)
axes[1].bar(k, np.exp(binomial - g), color="#56B4E9")
axes[1].set_ylabel("probability")
axes[1].set_title("The number of ill pupils", fontsize=11)
for axis in axes:
    axis.set_xlabel("number k of ill pupils in a class of 25")
    axis.grid(alpha=0.3)

# %%
# Tests, one in five of them wrong
# --------------------------------
# Each class is a model of its own, with exact probabilities: inference for functions of a count is
# cheap.

rng = np.random.default_rng(1)
classes = 24
hit = rng.random(classes) < shares[1]
ill = rng.random((classes, pupils)) < np.where(hit, rates[1], rates[0])[:, None]
channel = ls.Flips(0.2)
tests = channel.sample(ill, seed=1)
p = np.array([prior.observe(channel, row).marginals("exact").values for row in tests])

alone = expected = rates @ shares  # probability of being ill, before any test
alone = np.where(tests == 1, alone * 0.8, alone * 0.2)
alone /= alone + np.where(tests == 1, (1 - expected) * 0.2, (1 - expected) * 0.8)
for name, found in (("test", tests), ("own test and rate", alone > 0.5), ("all tests", p > 0.5)):
    print(f"{name:17} {np.mean(found != ill):.1%} of the pupils wrong")
print(f"errors that the model expects: {np.minimum(p, 1 - p).mean():.1%}")

# %%
# The tests of a class say whether it was hit, and so what a single test is worth: a positive test
# in a class without an outbreak is most likely wrong; a negative one in a class with an outbreak is
# wrong more than one time in three.

figure, axes = plt.subplots(1, 3, figsize=(9.6, 4.4), layout="constrained", sharey=True)
pictures = {"ill": ill, "tested positive": tests, "P(ill | tests of the class)": p}
for axis, (name, picture) in zip(axes, pictures.items(), strict=True):
    shown = axis.imshow(picture, cmap="viridis", vmin=0, vmax=1, aspect="auto")
    axis.set_title(name, fontsize=11)
    axis.set_xlabel("pupil")
axes[0].set_ylabel("class")
figure.colorbar(shown, ax=axes, label="probability")

for text, value, outbreak in (
    ("positive test, no outbreak", 1, False),
    ("negative test, outbreak", 0, True),
):
    some = p[(tests == value) & (hit == outbreak)[:, None]]
    print(f"{text}: ill with probability {some.mean():.2f} on average")
plt.show()
