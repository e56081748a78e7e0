"""
Learning with labels, with some, with none
==========================================

Clean masks to learn from are rare. The same estimator learns from pairs of noisy and clean masks,
from clean masks of which a few pixels are known, or from noisy masks alone. How much is lost
without labels?
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

clean = ls.make_silhouettes(90, shape=(32, 32), seed=0)
noisy = ls.datasets.corrupt(clean, ls.Flips(0.15), seed=0)
test, truth = noisy[50:], clean[50:]

# %%
# Three ways to learn. A label is NaN where it is not known: "some" knows one pixel in twenty.
# (``tol`` is ten times the default of these learners, for speed.)

rng = np.random.default_rng(0)
some = np.where(rng.random(clean.shape) < 0.05, clean, np.nan)
ways = {
    "none": lambda n: ls.MaskDenoiser(tol=0.01).fit(noisy[:n]),
    "some": lambda n: ls.MaskDenoiser(tol=0.01).fit(noisy[:n], some[:n]),
    "all": lambda n: ls.MaskDenoiser(tol=0.01).fit(noisy[:n], clean[:n]),
}
sizes = [5, 15, 50]
fits = {name: [fit(n) for n in sizes] for name, fit in ways.items()}
errors = {name: [1 - d.score(test, truth) for d in own] for name, own in fits.items()}
print("wrong pixels of new masks, after learning from", sizes, "masks:")
for name, error in errors.items():
    print(f"  labels: {name:5}", *(f"{e:6.2%}" for e in error))

# %%
# On shapes with independent noise, little is lost without labels. A simple filter to compare with
# is the majority of the 3 x 3 pixels around.

padded = np.pad(test, ((0, 0), (1, 1), (1, 1)))
votes = sum(padded[:, i : i + 32, j : j + 32] for i in range(3) for j in range(3))
majority = np.mean((votes > 4.5) != truth)
print(f"  majority of 3 x 3: {majority:.2%}; nothing done: {np.mean(test != truth):.2%}")

figure, axis = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
styles = {"none": ("#D55E00", "o-"), "some": ("#009E73", "s-"), "all": ("#0072B2", "^-")}
for name, error in errors.items():
    colour, style = styles[name]
    axis.plot(sizes, 100 * np.array(error), style, color=colour, label=f"labels: {name}")
axis.axhline(100 * majority, color="gray", linestyle="--", label="majority of 3 x 3")
axis.set_xscale("log")
axis.set_xticks(sizes, sizes)
axis.minorticks_off()
axis.set_ylim(bottom=0)
axis.set_xlabel("masks to learn from")
axis.set_ylabel("wrong pixels of new masks (%)")
axis.legend(frameon=False, ncols=2)
axis.grid(alpha=0.3)

# %%
# What each has learned from 50 masks: the term per pixel (purple where masks tend to be 1, beyond
# what the observations say) and the weights of the two cuts. Few labels say little about single
# pixels, so that the terms of "some" stay close to 0, where the prior has them.

figure, axes = plt.subplots(1, 3, figsize=(9.0, 3.2), layout="constrained")
for axis, (name, own) in zip(axes, fits.items(), strict=True):
    last = own[-1]
    across, down = last.alpha_
    shown = axis.imshow(last.modular_, cmap="PuOr", vmin=-1, vmax=1)
    axis.set_title(f"labels: {name}\ncuts {across:.2f} and {down:.2f}", fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])
figure.colorbar(shown, ax=axes, label="term per pixel (nats)", shrink=0.9)
plt.show()
