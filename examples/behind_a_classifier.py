"""Put a random field behind a classifier: its weights learned, its probabilities for whole masks.

The classifier judges each pixel on its own. The field takes the log-odds that it gives as a
feature, beside the grey level itself, which the classifier has mixed with those around it; it
learns what both are worth and how strongly neighbours agree, and knows all pixels at once.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold, cross_val_predict

import logsuper as ls
from logsuper.learning import Penalty, logistic, make_examples, means, samples


def patches(images: np.ndarray) -> np.ndarray:
    """Return the 5 x 5 grey levels around each pixel, one row a pixel."""
    padded = np.pad(images, ((0, 0), (2, 2), (2, 2)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), axis=(1, 2))
    return windows.reshape(images.size, 25)


def main() -> None:
    clean = ls.make_silhouettes(30, shape=(32, 32), seed=0)
    grey = clean + np.random.default_rng(0).normal(scale=0.8, size=clean.shape)
    train, test = slice(0, 20), slice(20, 30)

    # The field must see the classifier as sure as it will be on new images, so it learns from
    # log-odds of images that were left out.
    trees = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    X, y = patches(grey[train]), clean[train].ravel()
    image = np.repeat(np.arange(20), 32 * 32)
    held_out = cross_val_predict(
        trees, X, y, groups=image, cv=GroupKFold(5), method="decision_function"
    )
    odds = trees.fit(X, y).decision_function(patches(grey[test]))

    cuts = ls.grid_cuts((32, 32))
    features = np.stack([held_out.reshape(20, 32, 32), grey[train] - 0.5], axis=-1)
    seen = make_examples(cuts, labels=clean[train], features=features, modular="none")
    fit = logistic(seen, Penalty.of(seen.layout, alpha=1e-3, beta=1e-3))
    alpha, beta = fit.parameters.alpha, fit.parameters.beta
    print(f"weights of the cuts {alpha.round(2)}, of log-odds and grey level {beta.round(2)}")

    features = np.stack([odds.reshape(10, 32, 32), grey[test] - 0.5], axis=-1)
    new = make_examples(cuts, features=features, modular="none")
    truth = clean[test]
    p = means(new, fit.theta, method="logistic")
    print(f"wrong, classifier alone:     {np.mean((odds > 0).reshape(truth.shape) != truth):.1%}")
    print(f"wrong, with the field:       {np.mean((p > 0.5) != truth):.1%}")
    lengths = np.abs(np.diff(samples(new, fit.theta, 50, seed=0).astype(int))).sum(axis=(2, 3))
    true = np.abs(np.diff(truth.astype(int))).sum(axis=(1, 2))
    low, high = np.quantile(lengths, [0.05, 0.95], axis=1)
    print("steps along the rows of each mask, true and in 90 % of exact samples:")
    for k in range(3):
        print(f"  {true[k]} in {low[k]:.0f} to {high[k]:.0f}")


if __name__ == "__main__":
    main()
