"""Put a random field behind a classifier: its weights learned, its probabilities for whole masks.

The classifier judges each pixel by the grey levels around it and by its place. `MaskCRF` trains it,
also without each part of the images, so that the field sees it as sure as it is on new images; the
field learns what its log-odds are worth and how strongly neighbours agree, less across contrasts.
"""

import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier

import logsuper as ls

TRAIN = 20


def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    """Return the mean log loss of probabilities."""
    return float(-np.where(y == 1, np.log(p), np.log1p(-p)).mean())


def main() -> None:
    masks = ls.make_silhouettes(30, shape=(32, 32), seed=0)
    grey = masks + np.random.default_rng(0).normal(scale=1.2, size=masks.shape)
    new, truth = grey[TRAIN:], masks[TRAIN:]

    trees = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=15, random_state=0)
    crf = ls.MaskCRF(unary=trees).fit(grey[:TRAIN], masks[:TRAIN])

    alone, p = expit(crf.predict_unary(new)), crf.predict_proba(new)
    for name, found in (("classifier alone", alone), ("field behind it", p)):
        wrong = np.mean((found > 0.5) != truth)
        print(f"{name:18} wrong {wrong:.1%}, log loss {log_loss(found, truth):.3f}")
    print(
        f"weights of the couplings, one row per scale of contrast: {crf.alpha_.round(2).tolist()}"
    )
    print(f"weight of the log-odds: {crf.beta_[0]:.2f}")

    # What only a distribution of whole masks can say: how large is the animal?
    sizes = crf.sample_posterior(new, 100, random_state=0).sum(axis=(2, 3))
    low, high = np.quantile(sizes, [0.05, 0.95], axis=1)
    print("pixels of the animal, true and in 90 % of exact samples of the field:")
    for k in range(3):
        print(f"  {truth[k].sum()}, {low[k]:.0f} to {high[k]:.0f}")


if __name__ == "__main__":
    main()
