"""Put a random field behind a classifier: its weights learned, its probabilities for whole masks.

The classifier judges each pixel by the grey levels around it and by its place. The field takes the
log-odds that it gives as a feature, beside the grey level itself, which the classifier has mixed
with those around it; it learns what both are worth and how strongly neighbours agree, and knows
all pixels at once. Either alone is worse.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold, cross_val_predict

import logsuper as ls
from logsuper.learning import Examples, Penalty, logistic, make_examples, means, samples

SHAPE = (32, 32)
TRAIN = 20


def patches(images: np.ndarray) -> np.ndarray:
    """Return the 5 x 5 grey levels around each pixel with its row and column, one row per pixel."""
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), axis=(1, 2))
    places = np.indices(images.shape)[1:].reshape(2, -1).T
    return np.hstack([windows.reshape(images.size, 25), places])


def gather(features: list[np.ndarray], labels: np.ndarray | None = None) -> Examples:
    """Return images with some features of each pixel, and cuts between neighbours."""
    stacked = np.stack([feature.reshape(-1, *SHAPE) for feature in features], axis=-1)
    return make_examples(ls.grid_cuts(SHAPE), labels=labels, features=stacked, modular="shared")


def main() -> None:
    clean = ls.make_silhouettes(30, shape=SHAPE, seed=0)
    grey = clean + np.random.default_rng(0).normal(scale=1.2, size=clean.shape)
    truth = clean[TRAIN:]

    # The field must see the classifier as sure as it will be on new images, so it learns from
    # log-odds of images that were left out.
    trees = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=15, random_state=0)
    X, y = patches(grey[:TRAIN]), clean[:TRAIN].ravel()
    image = np.repeat(np.arange(TRAIN), truth[0].size)
    held_out = cross_val_predict(
        trees, X, y, groups=image, cv=GroupKFold(3), method="decision_function"
    )
    odds = trees.fit(X, y).decision_function(patches(grey[TRAIN:]))
    print(f"wrong, classifier alone:               {np.mean((odds > 0) != truth.ravel()):.1%}")

    level = grey - 0.5
    fields = {
        "field on the grey level alone:": ([level[:TRAIN]], [level[TRAIN:]]),
        "field behind the classifier:": ([held_out, level[:TRAIN]], [odds, level[TRAIN:]]),
    }
    for name, (train, test) in fields.items():
        seen, new = gather(train, clean[:TRAIN]), gather(test)
        fit = logistic(seen, Penalty.of(seen.layout, alpha=1e-3, beta=1e-3))
        p = means(new, fit.theta, method="logistic")
        print(f"wrong, {name:31} {np.mean((p > 0.5) != truth):.1%}")
    print(f"weights of the cuts: {fit.parameters.alpha.round(2)}", end=", ")
    print(f"of log-odds and grey level: {fit.parameters.beta.round(2)}")

    # What only a distribution of whole masks can say: how large is the animal?
    sizes = samples(new, fit.theta, 100, seed=0).sum(axis=(2, 3))
    low, high = np.quantile(sizes, [0.05, 0.95], axis=1)
    inside = np.mean((low <= truth.sum(axis=(1, 2))) & (truth.sum(axis=(1, 2)) <= high))
    print("pixels of the animal, true and in 90 % of exact samples:")
    for k in range(3):
        print(f"  {truth[k].sum()}, {low[k]:.0f} to {high[k]:.0f}")
    print(f"such intervals hold the truth in {inside:.0%} of the images")


if __name__ == "__main__":
    main()
