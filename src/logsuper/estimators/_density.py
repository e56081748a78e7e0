"""The density of binary rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from logsuper._base import ConvergenceWarning, FloatArray, as_key, check_number, first_index
from logsuper.bounds import Bracket, NotApplicable, TooLarge
from logsuper.estimators._common import (
    as_seed,
    check_callback,
    check_choice,
    check_count,
    check_functions,
    run,
    whole,
)
from logsuper.estimators._forest import attractive_forest
from logsuper.estimators._saving import Saveable, without_paths
from logsuper.functions import ConcaveCardinality, Cut, Modular, SubmodularFunction, Sum, zero
from logsuper.learning import Callback, Exact, Examples, Parameters, Record, make_examples
from logsuper.model import LogSupermodular

__all__ = ["LogSupermodularDensity"]

_LEARNERS = ("auto", "exact", "logistic", "saa", "pseudo", "lfield")

# Rows below which there is nothing to hold out, and rows that are enough of it: one with unknown
# entries takes a bracket of its own.
_FEW, _HELD = 50, 500

# Learners that cannot sum over what is not known.
_WHOLE = ("saa", "pseudo")


class LogSupermodularDensity(Saveable, DensityMixin, BaseEstimator):  # type: ignore[misc]
    r"""Learn the density of rows of zeros and ones that tend to be alike.

    .. math:: p(x)\propto\exp\Big(-\sum_k\alpha_kf_k(x)+t^\top x\Big),\qquad\alpha\ge0,

    with submodular :math:`f_k`: a one anywhere makes no other less likely. Features that exclude
    each other are beyond such a model; recode one of them as its complement.

    Parameters
    ----------
    functions : {"counts", "forest"}, list of SubmodularFunction or callable, optional
        The :math:`f_k`, on as many elements as there are features; or what returns them for this
        number n. "counts" is :math:`\min(\sum_ix_i,j)` for j = 1, 2, 4, ... below n: sums with
        weights are concave functions of the number of ones, which couple all features alike with
        few parameters. "forest" has a weight of its own for each pair of the forest of attractive
        pairs with the greatest mutual information. The log-partition function is exact for both.
        By default the one under which a fifth of the rows, held out, is more likely; "counts" for
        fewer than 50 rows.
    learner : {"auto", "exact", "logistic", "saa", "pseudo", "lfield"}
        How to learn. "exact" is maximum likelihood, "logistic" the paper's, of the logistic bound,
        which takes half of a weak coupling for granted. "auto" is "exact" where exact inference is
        cheap (the default functions, all on up to 16 features, sparse pairwise ones), else
        "logistic".
    modular : {"pixel", "shared", "none"}
        The modular term t: one number for each feature, one for all, or none.
    penalty : float or dict, optional
        Weight of the quadratic regulariser, in nats a row, for all parameters or for each kind
        ("alpha", "modular", 0 where not given). By default a Gaussian prior: 3 over the number of
        rows for the modular term, .1 over it for alpha.
    binarize : float, optional
        Values above it are ones, others zeros. By default X must hold zeros and ones.
    tol : float, optional
        Accuracy of the learner; its own default if None.
    max_iter : int, optional
        Most steps, rounds or iterations of the learner; its own default if None.
    options : dict, optional
        More arguments of the learner.
    callback : callable, optional
        Called with each line of the learner's history while it runs; what it raises ends the fit.
    random_state : int, Generator, RandomState or None, default 0
        The same number gives the same result, whatever `n_jobs`.
    n_jobs : int, optional
        Threads; -1 for all processors.

    Attributes
    ----------
    model_ : LogSupermodular
        The distribution, to condition, bound or sample it in all the ways there are.
    bracket_ : Bracket
        Certified bounds on its log-partition function.
    parameters_ : Parameters
    alpha_ : ndarray of shape (K,)
    modular_ : ndarray of shape (n_features,)
    functions_ : tuple of SubmodularFunction
    learner_ : str
        The learner that ran.
    history_ : tuple of Record
    n_iter_ : int
    converged_ : bool
    n_features_in_ : int

    Notes
    -----
    NaN, or the mask of a masked array, is an unknown entry: it is summed over, in `fit` and in
    `score_samples`.

    Examples
    --------
    >>> import numpy as np
    >>> import logsuper as ls
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.random((200, 6)) < rng.choice([0.2, 0.8], (200, 1))).astype(int)
    >>> density = ls.LogSupermodularDensity("counts").fit(X)
    >>> density.score_samples([[1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 1, 0]]).round()
    array([-2., -5.])
    >>> density.bracket_.width < 1e-9
    True
    >>> density.sample(3, random_state=0).shape
    (3, 6)
    """

    _FITTED = (
        "parameters_",
        "functions_",
        "learner_",
        "n_features_in_",
        "feature_names_in_",
        "history_",
        "converged_",
    )

    parameters_: Parameters
    functions_: tuple[SubmodularFunction, ...]
    learner_: str
    n_features_in_: int
    history_: tuple[Record, ...]
    converged_: bool

    def __init__(
        self,
        functions: Any = None,
        learner: str = "auto",
        *,
        modular: str = "pixel",
        penalty: float | dict[str, float] | None = None,
        binarize: float | None = None,
        tol: float | None = None,
        max_iter: int | None = None,
        options: dict[str, Any] | None = None,
        callback: Callback | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.functions = functions
        self.learner = learner
        self.modular = modular
        self.penalty = penalty
        self.binarize = binarize
        self.tol = tol
        self.max_iter = max_iter
        self.options = options
        self.callback = callback
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            0 or 1; NaN where it is not known.
        y : ignored

        Returns
        -------
        self
        """
        check_choice(self.learner, "learner", _LEARNERS)
        check_choice(self.modular, "modular", ["pixel", "shared", "none"])
        check_callback(self.callback)
        if isinstance(self.penalty, Mapping):
            for kind in self.penalty:
                check_choice(kind, "a key of penalty", ["alpha", "modular"])
        with whole(self):
            rows = self._read(X, reset=True)
            if np.isnan(rows).all():
                raise ValueError("X has no known entry at all")
            if self.learner in _WHOLE and np.isnan(rows).any():
                i, j = first_index(np.isnan(rows))
                raise ValueError(
                    f"X[{i}, {j}] is not known, but learner={self.learner!r} needs all entries; "
                    "use 'exact', 'logistic' or 'lfield'"
                )
            key = as_key(as_seed(self.random_state))
            functions = self._more_likely(rows, key) if self.functions is None else self.functions
            self.functions_ = _functions_on(functions, rows)
            examples = make_examples(self.functions_, labels=rows, modular=self.modular)
            self.learner_ = _choose(examples) if self.learner == "auto" else self.learner
            learned = run(self, self.learner_, examples, key, self.callback)
            self.parameters_ = learned.parameters
            self.history_ = tuple(learned.history)
            self.converged_ = bool(learned.converged)
            self._refit()
            _ = self.bracket_  # after `fit`, no question changes the estimator
        return self

    def _more_likely(self, rows: FloatArray, key: int) -> str:
        """Return the kind of functions under which rows that were held out are more likely."""
        if len(rows) < _FEW or rows.shape[1] < 2:
            return "counts"
        order = np.random.default_rng(key).permutation(len(rows))
        held = len(rows) // 5
        train, test = rows[order[held:]], rows[order[: min(held, _HELD)]]
        if np.isnan(train).all():
            return "counts"
        scores = {}
        for kind in ("counts", "forest"):
            trial = clone(self).set_params(
                functions=kind,
                binarize=None,
                callback=None,
                options=without_paths(self.options),
                random_state=key,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                scores[kind] = trial.fit(train).score(test)
        return max(scores, key=lambda kind: scores[kind])

    def _refit(self) -> None:
        found, n = self.parameters_, self.n_features_in_
        check_functions(self.functions_, "functions_", n)
        if len(found.alpha) != len(self.functions_) or found.modular.size not in (0, 1, n):
            raise ValueError("parameters_ are not those of functions_")
        for name in ("modular_", "model_", "bracket_"):
            self.__dict__.pop(name, None)
        self.alpha_: FloatArray = found.alpha
        self.n_iter_: int = self.history_[-1].step if self.history_ else 0

    # Made when first asked for: a file is read before anything of the size that it claims is made.

    @cached_property
    def modular_(self) -> FloatArray:
        """The modular term, one number for each feature."""
        check_is_fitted(self)
        found = self.parameters_.modular
        return np.zeros(self.n_features_in_) + (found if found.size else 0.0)

    @cached_property
    def model_(self) -> LogSupermodular:
        """The distribution."""
        check_is_fitted(self)
        terms = zip(self.alpha_.tolist(), self.functions_, strict=True)
        return LogSupermodular(Sum(terms) - Modular(self.modular_))

    @cached_property
    def bracket_(self) -> Bracket:
        """Certified bounds on the log-partition function."""
        return self.model_.bracket(n_jobs=self.n_jobs)

    def score_samples(self, X: Any, return_bracket: bool = False) -> Any:
        """Return a certified lower bound on the log-likelihood of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Of a row with unknown entries it is the likelihood of the others, which takes a bracket
            of its own.
        return_bracket : bool, default False
            Whether to return an upper bound too.

        Returns
        -------
        lower : ndarray of shape (n_samples,)
            Equal to the log-likelihood where the log-partition function is known exactly.
        upper : ndarray of shape (n_samples,)
            If asked for.
        """
        check_is_fitted(self)
        rows = self._read(X)
        unknown = np.isnan(rows)
        whole = ~unknown.any(axis=1)
        below = np.empty(len(rows))
        # log of the sum of exp(-f) over what is not known, from below and above
        below[whole] = -np.asarray(self.model_.f(rows[whole]))
        above = below.copy()
        for i in np.flatnonzero(~whole):
            known = {int(d): int(rows[i, d]) for d in np.flatnonzero(~unknown[i])}
            part = self.model_.condition(known).bracket(n_jobs=self.n_jobs)
            below[i], above[i] = part.lower, part.upper
        lower, upper = below - self.bracket_.upper, above - self.bracket_.lower
        return (lower, upper) if return_bracket else lower

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        float
        """
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[np.uint8]:
        """Draw rows, exactly, by coupling from the past.

        Parameters
        ----------
        n_samples : int, default 1
        random_state : int, Generator, RandomState or None

        Returns
        -------
        ndarray of shape (n_samples, n_features), uint8
        """
        check_is_fitted(self)
        count = check_count(n_samples, "n_samples")
        return self.model_.sample(count, seed=as_seed(random_state), n_jobs=self.n_jobs)

    def bracket(self, **options: Any) -> Bracket:
        """Return certified bounds on the log-partition function.

        Parameters
        ----------
        **options
            Those of `LogSupermodular.bracket`, such as a larger ``budget``.

        Returns
        -------
        Bracket
        """
        check_is_fitted(self)
        return self.model_.bracket(**{"n_jobs": self.n_jobs, **options})

    def _read(self, X: Any, reset: bool = False) -> FloatArray:
        """Return rows as float64, NaN where they are not known."""
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan)
        found: NDArray[Any] = validate_data(
            self, X, reset=reset, ensure_all_finite="allow-nan", dtype="numeric"
        )
        rows = np.array(found, dtype=np.float64)
        known = ~np.isnan(rows)
        if self.binarize is not None:
            level = check_number(self.binarize, "binarize")
            rows[known] = rows[known] > level
        bad = known & (rows != 0) & (rows != 1)
        if bad.any():
            i, j = first_index(bad)
            raise ValueError(
                f"X[{i}, {j}] = {rows[i, j]:g} is neither 0 nor 1; give binarize, a level above "
                "which values are ones, or NaN where a value is not known"
            )
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.random_state is None
        return tags


# ------------------------------------------------------------------------------------------ inside


def _choose(examples: Examples) -> str:
    """Return the learner for examples of one shape: exact where that is affordable."""
    try:
        Exact().choose(examples.groups[0])
    except (NotApplicable, TooLarge):
        return "logistic"
    return "exact"


def _functions_on(functions: Any, rows: FloatArray) -> tuple[SubmodularFunction, ...]:
    """Return the functions on the features of rows."""
    n = rows.shape[1]
    if isinstance(functions, str):
        check_choice(functions, "functions", ["counts", "forest"])
        if functions == "forest":
            pairs = attractive_forest(rows).tolist()
            return tuple(Cut(n, [pair]) for pair in pairs) or (zero(n),)
        bends = [1 << k for k in range(n.bit_length()) if 1 << k < n]
        counts = np.arange(n + 1.0)
        return tuple(ConcaveCardinality(np.minimum(counts, j)) for j in bends) or (zero(n),)
    if callable(functions) and not isinstance(functions, SubmodularFunction):
        return check_functions(functions(n), f"functions, called with {n},", n)
    return check_functions(functions, "functions", n)
