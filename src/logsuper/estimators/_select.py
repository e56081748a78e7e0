"""Choosing context, scale, penalty and temperature inside of a fit, by parts that are held out.

Without labels, models are compared by how well they predict hidden pixels of noisy images that they
were not fitted to (`logsuper.learning.score`); with labels, by the log loss of the labels of such
images. Arguments are chosen one after the other, which takes a fit per value, not per combination.
"""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from logsuper import learning
from logsuper._base import FloatArray, IntArray
from logsuper.estimators._common import run
from logsuper.estimators._progress import Progress
from logsuper.estimators._saving import without_paths
from logsuper.learning import Examples, Learned, Learner, Score

__all__ = [
    "PENALTIES",
    "SELECT",
    "Chosen",
    "Selector",
    "Setting",
    "check_selection",
    "is_select",
]

SELECT = "select"
"""The value of an argument that is to be chosen."""

PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""Factors on the learner's default penalty that are tried."""

# Share of the images, or windows, that is held out; minimum number of images to hold some out whole
# rather than windows of them; maximum number of pixels that are scored; patterns of hidden pixels.
_HELD, _IMAGES, _SCORED, _PATTERNS = 0.2, 5, 1 << 18, 4


class Setting(NamedTuple):
    """What can be chosen.

    Attributes
    ----------
    context : int
        Radius of the filter.
    scale : bool
        Whether the weight of the observations is learned.
    penalty : float
        Factor on the learner's default penalty.
    trees : bool
        Whether a classifier of the surroundings stands beside the filter.
    """

    context: int
    scale: bool
    penalty: float = 1.0
    trees: bool = False

    def change(self, design: dict[str, Any]) -> dict[str, Any]:
        """Return the design of a model with this context and scale."""
        chosen = {"context": self.context, "scale": self.scale, "trees": self.trees}
        return {**design, **chosen}

    def __str__(self) -> str:
        trees = " and trees" if self.trees else ""
        return f"context={self.context}{trees}, scale={self.scale}, penalty x {self.penalty:g}"


class Chosen(NamedTuple):
    """What was chosen.

    Attributes
    ----------
    setting : Setting
    temperature : float
    rows : tuple of dict
        What was tried: the `Setting`, its score, by how much that is behind the best, and the
        standard error of the difference, paired pixel by pixel.
    """

    setting: Setting
    temperature: float
    rows: tuple[dict[str, Any], ...]


def is_select(value: object) -> bool:
    """Return whether an argument is to be chosen."""
    return isinstance(value, str) and value == SELECT


def check_selection(estimator: Any) -> None:
    """Refuse arguments that are neither to be chosen nor what they may be otherwise."""
    scale, penalty, heat = estimator.scale, estimator.penalty, estimator.temperature
    if not (isinstance(scale, bool | np.bool_) or is_select(scale)):
        raise TypeError(f"scale must be True, False or {SELECT!r}, got {scale!r}")
    if isinstance(penalty, str) and not is_select(penalty):
        raise ValueError(f"penalty must be a number, a dict or {SELECT!r}, got {penalty!r}")
    if isinstance(heat, str) and not is_select(heat):
        raise ValueError(f"temperature must be a number or {SELECT!r}, got {heat!r}")
    if not isinstance(heat, str):
        learning.check_temperature(heat)


@dataclasses.dataclass(frozen=True, eq=False)
class Selector:
    """Chooses those arguments of an estimator that are "select".

    Attributes
    ----------
    estimator : MaskDenoiser
    learner, beside : Learner
        Without a classifier of the surroundings, and with one.
    gather : callable
        Returns the examples for a setting.
    images : ndarray of shape (N,)
        The image that each example is a part of.
    method : str
        The inference whose probabilities are compared.
    key : int
        Seed for what is held out, of fits and of scores.
    progress : Progress
        Told about each setting.
    found : dict
        More arguments of the learner.
    """

    estimator: Any
    learner: Learner
    beside: Learner
    gather: Callable[[Setting], Examples]
    images: IntArray
    method: str
    key: int
    progress: Progress
    found: dict[str, Any]

    def choose(self, start: Setting, trees: Sequence[bool] = ()) -> Chosen:
        """Return the best setting; `start` has the defaults, and the largest context to try.

        Parameters
        ----------
        start : Setting
        trees : sequence of bool
            Where there are two, models with and without a classifier are compared. If nothing else
            is, each half of the images judges what the other half taught.
        """
        names = ("context", "scale", "penalty")
        asked = [name for name in names if is_select(getattr(self.estimator, name))]
        soften = is_select(self.estimator.temperature)
        if not (asked or soften or len(trees) > 1):
            return Chosen(start, float(self.estimator.temperature), ())
        if self.learner.decode == "map":
            raise ValueError(
                f"{SELECT!r} compares probabilities, and those of learner={self.learner.name!r} "
                "mean nothing; give the arguments, or choose by GridSearchCV"
            )
        if "loss" in self.found:
            raise ValueError(f"{SELECT!r} compares images without sample_weight; leave one out")
        splits = _hold_out(self.images, self.key, _HELD if asked or soften else None)
        values: dict[str, Any] = {
            "context": range(start.context, -1, -1),
            "scale": (True, False) if start.scale else (False,),
            "penalty": PENALTIES,
        }
        if not (asked or soften):
            self.progress.expect(len(trees) * len(splits) + 1)
        best, fits, scores = start, dict[Setting, Learned](), dict[Setting, Score]()

        def compare(setting: Setting) -> None:
            if setting not in scores:
                examples, pixels = self.gather(setting), list[FloatArray]()
                for train, test in splits:
                    fits[setting] = fit = self._fit(examples.subset(train), setting)
                    pixels += self._score(self._held(examples, test, fit), fit).pixels
                scores[setting] = Score(tuple(pixels))
                self.progress.say(f"{setting}: score {scores[setting].value:.5f}")

        compare(start)
        for name, tried in {"trees": trees, **{name: values[name] for name in asked}}.items():
            for value in tried:
                compare(best._replace(**{name: value}))
            best = max(scores, key=lambda setting: scores[setting].value)
        temperature = 1.0 if soften else float(self.estimator.temperature)
        if soften:
            ((_, test),) = splits
            unseen = self._held(self.gather(best), test, fits[best])
            temperature = learning.best_temperature(unseen, fits[best].theta, **self._options)
        self.progress.say(f"chosen: {best}, temperature {temperature:.3g}")
        rows = [_row(setting, score, scores[best]) for setting, score in scores.items()]
        return Chosen(best, temperature, tuple(rows))

    def learn(self, examples: Examples, setting: Setting, options: Any = None) -> Learned:
        """Run the learner on some examples, with its own options."""
        trial = copy.copy(self.estimator)
        trial.options = options
        if is_select(trial.penalty):
            trial.penalty = self._penalties(self.pick(setting), examples.count, setting.penalty)
        learner, found = self.pick(setting), dict(self.found)
        what = f"learning by {learner.name} from {examples.count} images: {setting}"
        self.progress.begin_fit(what)
        if not learner.errors:
            found.pop("rate_stderr", None)
        return run(trial, learner, examples, self.key, self.progress.callback, **found)

    def pick(self, setting: Setting) -> Learner:
        """Return the learner of a setting."""
        return self.beside if setting.trees else self.learner

    def _penalties(self, learner: Learner, count: int, factor: float) -> dict[str, float]:
        weights = {"alpha": learner.alpha, "modular": learner.modular, "filter": learner.beta}
        weights["scale"] = learner.alpha
        return {kind: factor * weight / count for kind, weight in weights.items()}

    @property
    def _options(self) -> dict[str, Any]:
        return {"method": self.method, "seed": self.key, "n_jobs": self.estimator.n_jobs}

    def _fit(self, examples: Examples, setting: Setting) -> Learned:
        with warnings.catch_warnings():
            # those of the last fit, to all examples, are passed on
            warnings.simplefilter("ignore")
            return self.learn(examples, setting, without_paths(self.estimator.options))

    def _held(self, examples: Examples, test: IntArray, learned: Learned) -> Examples:
        unseen = examples.subset(test).some(_SCORED, self.key)
        return unseen if learned.channel is None else unseen.with_channel(learned.channel)

    def _score(self, unseen: Examples, learned: Learned) -> Score:
        if unseen.has_labels:
            return learning.score_labels(unseen, learned.theta, **self._options)
        return learning.score(unseen, learned.theta, patterns=_PATTERNS, **self._options)


# ------------------------------------------------------------------------------------------ inside


def _hold_out(images: IntArray, key: int, share: float | None) -> list[tuple[IntArray, IntArray]]:
    """Return the examples to fit to, and those that are held out; no image is in both if many.

    That is one pair with a share of the images held out; without a share two pairs, of halves.
    """
    if len(images) < 2:
        raise ValueError(
            f"{SELECT!r} holds images out to compare models, but there is only one, too small to "
            "be cut into windows; give more images, or the arguments themselves"
        )
    whole = len(np.unique(images)) >= _IMAGES
    parts = images if whole else np.arange(len(images))
    order = np.random.default_rng([key, 1]).permutation(np.unique(parts))
    count = max(1, round((0.5 if share is None else share) * len(order)))
    held = np.isin(parts, order[:count])
    one, other = np.flatnonzero(~held), np.flatnonzero(held)
    return [(one, other), (other, one)] if share is None else [(one, other)]


def _row(setting: Setting, score: Score, best: Score) -> dict[str, Any]:
    behind, error = (0.0, 0.0) if score is best else best.minus(score)
    return {**setting._asdict(), "score": score.value, "behind": behind, "stderr": error}
