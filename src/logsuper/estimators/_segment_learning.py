r"""Learning the constants of a segmentation from scribbles.

The weights are those of the least error of the exact cut on the given masks, found by coordinate
search. (Maximum likelihood and max-margin make the coupling as strong as neighbours agree, and
leave little to the field; errors of a segmentation are whole regions, of which there are few.)
The temperature and the calibration of probabilities are maximum likelihood, by logistic regression
over pixels.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import minimize
from scipy.special import expit

from logsuper._base import FloatArray, IntArray
from logsuper.estimators._scribbles import Labels, find_strokes
from logsuper.estimators._session import Constants, Progress, ScribbleSession, design

__all__ = ["START", "Example", "learn_constants", "learn_from_strokes"]

# Where the search starts, and values of each constant that it tries, from one to the next.
START = Constants(clip=3.0, geodesic=1.0, coupling=40.0)
_GRID: dict[str, tuple[float, ...]] = {
    "coupling": (10.0, 20.0, 40.0, 80.0, 160.0),
    "geodesic": (0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
    "clip": (1.0, 1.5, 2.0, 3.0, 4.0, 6.0),
    "straight": (0.0, 0.5, 1.0),
    "contrast": (0.7, 1.0, 1.4),
}
# Passes over the constants; the least relative gain for which one is moved, since images are few.
_SWEEPS, _GAIN = 3, 0.01
_TEMPERATURES = (2.0, 4.0, 8.0)
# Perturbations per image, pixels per image and penalty of the logistic regression.
_SAMPLES, _PIXELS, _PENALTY = 8, 4000, 1.0
# Folds of strokes, and what is chosen by them.
_FOLDS, _BY_STROKES = 5, ("coupling", "geodesic", "clip", "contrast")


@dataclasses.dataclass(frozen=True, eq=False)
class Example:
    """An image with its scribbles and with labels, NaN where there is none.

    What it finds for some constants is kept: several searches may share examples.
    """

    session: ScribbleSession
    scribbles: Labels
    truth: FloatArray
    terms: FloatArray
    _errors: dict[Constants, float] = dataclasses.field(default_factory=dict)
    _rows: dict[Constants, tuple[FloatArray, FloatArray]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, session: ScribbleSession, scribbles: Labels, truth: FloatArray) -> Example:
        """Return the example with its terms computed."""
        known = np.where(scribbles == 0, truth, np.nan)
        return cls(session, scribbles, known, session.terms(scribbles))

    def error(self, constants: Constants) -> float:
        """Return the share of labelled pixels without a scribble that the cut gets wrong."""
        if constants not in self._errors:
            known = ~np.isnan(self.truth)
            found = self.session.cut(self.scribbles, self.terms, constants)
            wrong = float(np.mean(found[known] != self.truth[known])) if known.any() else 0.0
            self._errors[constants] = wrong
        return self._errors[constants]

    def rows(self, constants: Constants) -> tuple[FloatArray, FloatArray]:
        """Return what the calibration weighs, and the labels, of some pixels."""
        if constants not in self._rows:
            truth = self.truth.ravel()
            known = np.flatnonzero(~np.isnan(truth))
            chosen = known[np.random.default_rng(0).permutation(len(known))[:_PIXELS]]
            mean = self.session.mean(self.scribbles, self.terms, constants, _SAMPLES)
            made = design(self.terms[chosen], mean[chosen], constants)
            self._rows[constants] = made, truth[chosen]
        return self._rows[constants]


def learn_constants(
    examples: Sequence[Example],
    start: Constants,
    callback: Progress | None = None,
    n_jobs: int | None = None,
) -> Constants:
    """Return the constants with the least mean error, and their calibration."""
    team = Parallel(n_jobs=n_jobs, prefer="threads")

    def risk(constants: Constants) -> float:
        return float(np.mean(team(delayed(example.error)(constants) for example in examples)))

    return calibrate(examples, _search(risk, start, tuple(_GRID), callback), n_jobs)


def learn_from_strokes(session: ScribbleSession, labels: Labels, start: Constants) -> Constants:
    """Return the constants that predict held-out strokes best; `start` if they cannot be.

    Whole strokes are held out, since neighbouring pixels of a stroke say the same. A label with a
    single stroke keeps it always.
    """
    strokes, count = find_strokes(labels)
    values = np.array([labels[strokes == k][0] for k in range(1, count + 1)])
    folds = _fold_strokes(values)
    examples = []
    for fold in range(_FOLDS):
        out = np.isin(strokes, 1 + np.flatnonzero(folds == fold))
        if out.any():
            truth = np.where(out, labels == 1, np.nan)
            examples.append(Example.of(session, np.where(out, 0, labels).astype(np.uint8), truth))
    if not examples:
        warnings.warn(
            "learn='strokes' holds out whole strokes, but the object and the background have one "
            "each, so that nothing was learned; mark a second place of either",
            UserWarning,
            stacklevel=4,
        )
        return start

    def risk(constants: Constants) -> float:
        # of each label apart: strokes on the background are longer
        counts = [_count_wrong(example, constants) for example in examples]
        wrong, total = np.sum(counts, axis=0)
        return float(np.mean(wrong[total > 0] / total[total > 0]))

    return _search(risk, start, _BY_STROKES, None)


def calibrate(
    examples: Sequence[Example], constants: Constants, n_jobs: int | None = None
) -> Constants:
    """Return the constants with the temperature and calibration of the least log loss."""
    team = Parallel(n_jobs=n_jobs, prefer="threads")
    best, least = constants, np.inf
    for temperature in _TEMPERATURES:
        tried = dataclasses.replace(constants, temperature=temperature)
        parts = team(delayed(example.rows)(tried) for example in examples)
        X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        if len(np.unique(y)) < 2:
            return constants
        found = fit_calibration(X, y)
        odds = (X @ found) * (2.0 * y - 1.0)
        loss = float(np.logaddexp(0.0, -odds).mean())
        if loss < least:
            least = loss
            best = dataclasses.replace(tried, calibration=tuple(map(float, found)))
    return best


def fit_calibration(X: FloatArray, y: FloatArray) -> FloatArray:
    """Return the weights of `design` that have the least log loss, with a ridge.

    The probability of the object may not fall as the mean rises (bounds on it would change sides),
    nor as colours are more like its own, nor as its strokes are nearer by both distances. The
    straight distance alone may have a negative weight, down to that of the geodesic one: then
    paths count by how much longer they are than straight ones, which predicts better.
    """
    rows = X.copy()
    rows[:, 3] -= rows[:, 4]  # weights of the difference, and of both together
    spread = np.maximum(rows.std(axis=0), 1e-6)
    spread[0] = 1.0
    rows, signs = rows / spread, 2.0 * y - 1.0
    weighs = np.array([0.0, *np.full(len(spread) - 1, 1.0 / _PENALTY)])

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        margins = signs * (rows @ weights)
        value = float(np.logaddexp(0.0, -margins).sum() + 0.5 * weighs @ weights**2)
        return value, weighs * weights - (signs * expit(-margins)) @ rows

    bounds = [(None, None), *((0.0, None) for _ in spread[1:])]
    stop = {"maxiter": 1000, "ftol": 1e-12}
    found = minimize(loss, np.zeros(len(spread)), jac=True, bounds=bounds, options=stop).x / spread
    found[4] -= found[3]
    return np.asarray(found)


# ------------------------------------------------------------------------------------------ inside


def _search(
    risk: Callable[[Constants], float],
    start: Constants,
    names: tuple[str, ...],
    callback: Progress | None,
) -> Constants:
    """Move one constant at a time to a better neighbour on its grid, until none is better."""
    best, least = start, risk(start)
    for sweep in range(_SWEEPS):
        before = least
        for done, name in enumerate(names):
            for side in (-1, 1):
                while (value := _beside(name, getattr(best, name), side)) is not None:
                    tried = dataclasses.replace(best, **{name: value})  # type: ignore[arg-type]
                    found = risk(tried)
                    if found >= (1.0 - _GAIN) * least:
                        break
                    best, least = tried, found
            if callback is not None:
                callback(sweep * len(names) + done + 1, _SWEEPS * len(names))
        if least == before:
            break
    return best


def _beside(name: str, value: float, side: int) -> float | None:
    """Return the next value of a grid below or above one, None at its end."""
    values = np.array(_GRID[name])
    beyond = values[values < value - 1e-9] if side < 0 else values[values > value + 1e-9]
    return None if not len(beyond) else float(beyond[-1 if side < 0 else 0])


def _fold_strokes(values: IntArray) -> IntArray:
    """Return the fold of each stroke; one beyond the last for the only stroke of a label."""
    folds = np.full(len(values), _FOLDS)
    for value in (1, 2):
        own = np.flatnonzero(values == value)
        if len(own) > 1:
            folds[own] = np.arange(len(own)) % min(_FOLDS, len(own))
    return folds


def _count_wrong(example: Example, constants: Constants) -> IntArray:
    """Return how many pixels of each label are wrong, and how many there are, (2, 2)."""
    found = example.session.cut(example.scribbles, example.terms, constants)
    own = [example.truth == value for value in (0.0, 1.0)]
    wrong = [np.count_nonzero(found[own[0]]), np.count_nonzero(~found[own[1]])]
    return np.array([wrong, [np.count_nonzero(part) for part in own]])
