"""Choosing a penalty: paths of fits with warm starts, and cross-validation along them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import joblib
import numpy as np
from sklearn.model_selection import KFold

from logsuper._base import FloatArray, IntArray, Seed, as_key, as_list, check_choice, check_integer
from logsuper.learning._decoding import means, modes
from logsuper.learning._examples import Examples, check_examples
from logsuper.learning._learned import Learned
from logsuper.learning._objective import Penalty

Learner = Callable[..., Learned]
Score = Callable[[Examples, Learned], float]

RULES = ("best", "one_standard_error")


class Splitter(Protocol):
    """What scikit-learn's splitters have."""

    def split(self, X: Any) -> Any:
        """Yield pairs of indices, for training and for testing."""


@dataclasses.dataclass(frozen=True, eq=False)
class Selection:
    """What cross-validation found.

    Attributes
    ----------
    penalties : tuple of Penalty
    scores : ndarray of shape (R, F)
        One per penalty and fold; more is better.
    chosen : int
        The place of the penalty that was chosen.
    learned : Learned
        The fit with it on all examples.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, cross_validate, make_examples, max_margin
    >>> x = ls.make_silhouettes(6, shape=(16, 16), seed=0)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, modular="shared")
    >>> penalties = [Penalty.of(data.layout, alpha=a, modular=1.0) for a in (1.0, 0.1)]
    >>> found = cross_validate(max_margin, data, penalties, folds=3)
    >>> found.scores.shape, found.chosen in (0, 1)
    ((2, 3), True)
    """

    penalties: tuple[Penalty, ...]
    scores: FloatArray
    chosen: int
    learned: Learned

    @property
    def mean(self) -> FloatArray:
        """The mean score of each penalty, (R,)."""
        return np.asarray(self.scores.mean(axis=1))

    @property
    def stderr(self) -> FloatArray:
        """Its standard error over the folds, (R,)."""
        return np.asarray(self.scores.std(axis=1, ddof=1) / np.sqrt(self.scores.shape[1]))

    @property
    def penalty(self) -> Penalty:
        """The penalty that was chosen."""
        return self.penalties[self.chosen]


def path(
    learner: Learner,
    examples: Examples,
    penalties: Sequence[Penalty],
    *,
    start: FloatArray | None = None,
    **options: Any,
) -> tuple[Learned, ...]:
    """Fit with one penalty after the other, each fit from where the one before has ended.

    Parameters
    ----------
    learner : callable
        A learner of this room, such as `max_margin`.
    examples : Examples
    penalties : sequence of Penalty
        Best from the strongest to the weakest: fits with strong penalties are fast.
    start : ndarray of shape (P,), optional
        Where the first fit begins.
    **options
        Those of the learner.

    Returns
    -------
    tuple of Learned
        One per penalty.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples, max_margin, path
    >>> x = ls.make_silhouettes(4, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1))
    >>> penalties = [Penalty.of(data.layout, alpha=0.01, modular=m) for m in (10.0, 1.0, 0.1)]
    >>> spread = [fit.parameters.modular.std() for fit in path(max_margin, data, penalties)]
    >>> spread == sorted(spread)
    True
    """
    _check_learner(learner)
    check_examples(examples)
    found: list[Learned] = []
    for penalty in as_list(penalties, "penalties", "a list of Penalty"):
        fit = learner(examples, penalty, start=start, **options)
        if not isinstance(fit, Learned):
            raise TypeError(f"learner must return Learned, got a {type(fit).__name__}")
        found.append(fit)
        start = fit.theta
    return tuple(found)


def cross_validate(
    learner: Learner,
    examples: Examples,
    penalties: Sequence[Penalty],
    *,
    folds: int | Splitter = 5,
    score: str | Score = "map",
    rule: str = "best",
    seed: Seed = 0,
    n_jobs: int | None = None,
    **options: Any,
) -> Selection:
    """Choose a penalty by how well fits with it decode examples that they have not seen.

    Parameters
    ----------
    learner : callable
        A learner of this room.
    examples : Examples
    penalties : sequence of Penalty
        From the strongest to the weakest.
    folds : int or splitter, default 5
        Number of parts, drawn at random; or a splitter of scikit-learn.
    score : {"map", "mean"} or callable
        The share of labels that modes, or rounded marginals, get right; or what returns a number,
        more for the better, given examples and a fit.
    rule : {"best", "one_standard_error"}
        Take the penalty with the best mean score, or the first one within one standard error of it.
    seed : int, Generator or None
        Of the parts, and of every fit.
    n_jobs : int, optional
        Processes over the folds, by joblib; the result does not depend on them.
    **options
        Those of the learner.

    Returns
    -------
    Selection
        With the fit on all examples.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, cross_validate, make_examples, max_margin
    >>> x = ls.make_silhouettes(9, shape=(16, 16), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> data = make_examples(ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1))
    >>> penalties = [Penalty.of(data.layout, alpha=0.01, modular=m) for m in (10.0, 1.0, 0.1)]
    >>> found = cross_validate(max_margin, data, penalties, folds=3)
    >>> found.scores.shape, bool(found.mean.max() > 0.93)
    ((3, 3), True)
    """
    _check_learner(learner)
    check_examples(examples, n_jobs)
    penalties = as_list(penalties, "penalties", "a list of Penalty")
    if not penalties:
        raise ValueError("penalties is empty; give at least one")
    check_choice(rule, "rule", RULES)
    measure = _find_score(score, examples)
    key = as_key(seed)
    parts = _split(folds, examples.count, key)
    columns = joblib.Parallel(n_jobs=n_jobs)(
        joblib.delayed(_fold)(learner, examples, penalties, train, test, measure, key, options)
        for train, test in parts
    )
    scores = np.array(columns, dtype=np.float64).T
    if np.isnan(scores).any():
        raise ValueError("score returned NaN; a score must be a number, more for the better")
    mean = scores.mean(axis=1)
    chosen = int(mean.argmax())
    if rule == "one_standard_error":
        stderr = scores[chosen].std(ddof=1) / np.sqrt(scores.shape[1])
        chosen = int(np.flatnonzero(mean >= mean[chosen] - stderr)[0])
    final = path(learner, examples, penalties[: chosen + 1], seed=key, **options)[-1]
    return Selection(tuple(penalties), scores, chosen, final)


def score_map(examples: Examples, learned: Learned) -> float:
    """Return the share of labels that the modes get right."""
    return _accuracy(examples, modes(_seen(examples, learned), learned.theta))


def score_mean(examples: Examples, learned: Learned) -> float:
    """Return the share of labels that the logistic marginals, rounded, get right."""
    return _accuracy(examples, means(_seen(examples, learned), learned.theta, method="logistic"))


SCORES: dict[str, Score] = {"map": score_map, "mean": score_mean}


# ------------------------------------------------------------------------------------------ inside


def _check_learner(learner: object) -> None:
    if not callable(learner):
        raise TypeError(f"learner must be callable, got a {type(learner).__name__}")


def _find_score(score: str | Score, examples: Examples) -> Score:
    """Return the function behind a name; refuse it where there are no labels."""
    if callable(score):
        return score
    if not isinstance(score, str) or score not in SCORES:
        raise ValueError(f"score must be one of {', '.join(SCORES)} or callable, got {score!r}")
    if not examples.has_labels:
        raise ValueError(
            f"score={score!r} compares with labels, which are missing; give a callable"
        )
    return SCORES[score]


def _split(folds: int | Splitter, count: int, key: int) -> list[tuple[IntArray, IntArray]]:
    """Return indices for training and testing."""
    if hasattr(folds, "split"):
        splitter = folds
    else:
        number = check_integer(folds, "folds", 2, 2**31)
        if number > count:
            raise ValueError(f"folds = {number}, but there are only {count} examples")
        splitter = KFold(number, shuffle=True, random_state=key % 2**32)
    parts = [(np.asarray(a), np.asarray(b)) for a, b in splitter.split(np.zeros(count))]
    if len(parts) < 2:
        raise ValueError(f"folds makes {len(parts)} parts; a standard error needs two at least")
    return parts


def _fold(
    learner: Learner,
    examples: Examples,
    penalties: Sequence[Penalty],
    train: IntArray,
    test: IntArray,
    measure: Score,
    key: int,
    options: dict[str, Any],
) -> list[float]:
    """Return the score of every penalty on one fold."""
    fits = path(learner, examples.subset(train), penalties, seed=key, **options)
    unseen = examples.subset(test)
    return [float(measure(unseen, fit)) for fit in fits]


def _seen(examples: Examples, learned: Learned) -> Examples:
    """Return the examples as seen through the channel that was learned with them."""
    return examples if learned.channel is None else examples.with_channel(learned.channel)


def _accuracy(examples: Examples, found: Any) -> float:
    """Return the share of pixels with a label that are on its side of one half."""
    right = [(values > 0.5) == (labels == 1) for labels, values in examples.compare(found)]
    every = np.concatenate(right)
    return np.count_nonzero(every) / len(every) if len(every) else float("nan")
