"""The density of binary rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from logsuper._base import (
    FloatArray,
    as_generator,
    as_key,
    check_callback,
    check_choice,
    check_number,
    first_index,
)
from logsuper.bounds import Bracket
from logsuper.estimators import _candidates, _fields
from logsuper.estimators._candidates import Candidate, has_closed_form
from logsuper.estimators._common import as_seed, check_count, check_tol, run, whole
from logsuper.estimators._mixture import Mixture, fit_mixture
from logsuper.estimators._saving import Saveable, without_paths
from logsuper.functions import Modular, SubmodularFunction, Sum
from logsuper.learning import LEARNERS, Callback, Parameters, choose_exact, make_examples
from logsuper.model import LogSupermodular

# Learners from labels that give probabilities; those of them that sum over unknown entries.
_LEARNERS = [name for name, a in LEARNERS.items() if a.labels and a.decode == "mean"]
_PARTIAL = [name for name in _LEARNERS if LEARNERS[name].partial]

# Attributes that only a single field has.
_SINGLE = ("model_", "bracket_", "parameters_", "alpha_", "modular_", "functions_")
_OF_A_FIT = (*_SINGLE, "weights_", "_energies", "models_", "brackets_")


class LogSupermodularDensity(Saveable, DensityMixin, BaseEstimator):  # type: ignore[misc]
    r"""Learn the density of rows of zeros and ones that tend to be alike.

    .. math:: p(x)\propto\exp\Big(-\sum_k\alpha_kf_k(x)+t^\top x\Big),\qquad\alpha\ge0,

    with submodular :math:`f_k`: a one anywhere never makes another one less likely. Such a field
    cannot describe features that exclude each other; recode one as its complement, or use a mixture

    .. math:: p(x)=\sum_c\pi_cp_c(x)

    of several fields, each with its own :math:`f_k`, :math:`\alpha` and t.

    Parameters
    ----------
    functions : {"counts", "forest"}, list of SubmodularFunction or callable, optional
        The :math:`f_k`, on as many elements as there are features; or a callable that returns them
        for this number n. "counts" is :math:`\min(\sum_ix_i,j)` for j = 1, 2, 4, ... below n: their
        weighted sums are concave functions of the number of ones, which couple all features alike
        with few parameters. "forest" has one weight per pair of the forest of attractive pairs
        with the greatest mutual information. The log-partition function is exact for both.
        By default the one under which a fifth of the rows, held out, is more likely; "counts" for
        fewer than 50 rows.
    learner : {"auto", "exact", "logistic", "saa", "pseudo", "lfield"}
        How to learn. "exact" is maximum likelihood, "logistic" the paper's, of the logistic bound,
        which halves weak couplings. "auto" is "exact" where exact inference is cheap (the default
        functions, all on up to 16 features, sparse pairwise ones), else "logistic". A forest,
        without a penalty or options, is known in closed form.
    n_components : int or "auto", default "auto"
        The number of fields. Several are forests, each of its own pairs, fitted by expectation
        maximisation. "auto" is the one of 1, 2, 5, 10 and 20 under which a fifth of the rows, held
        out, is most likely. Those for which the product of components, rows (eight times those with
        unknown entries) and squared features is above 1e9 are not tried, so that a fit takes
        seconds. It is 1 for fewer than 50 rows, and where a mixture cannot be: with functions other
        than "forest", a penalty, options, a modular term that is not "pixel", or a learner other
        than "auto" and "exact".
    n_init : int, default 3
        Number of starts of a mixture; the likeliest is kept.
    modular : {"pixel", "shared", "none"}
        The modular term t: one number per feature, one for all, or none.
    penalty : float or dict, optional
        Weight of the quadratic regulariser, in nats per row, for all parameters or for each kind
        ("alpha", "modular", 0 where not given). By default a Gaussian prior: 3 over the number of
        rows for the modular term, .1 over it for alpha; for forests, and mixtures of them, three
        additional rows of independent features per forest.
    binarize : float, optional
        Values above it are ones, others zeros. By default X must hold zeros and ones.
    tol : float, optional
        Accuracy of the learner; its own default if None. For forests it is the gain in nats per row
        below which an iteration is the last one, .001 by default.
    max_iter : int, optional
        Maximum number of steps, rounds or iterations of the learner; its own default if None.
    options : dict, optional
        More arguments of the learner.
    callback : callable, optional
        Called with each record of the learner while it runs; an exception ends the fit.
    random_state : int, Generator, RandomState or None, default 0
        The same number gives the same result for any `n_jobs`.
    n_jobs : int, optional
        Threads; -1 for all processors.

    Attributes
    ----------
    weights_ : ndarray of shape (C,)
        The :math:`\pi_c` of the fields; 1 for a single one.
    models_ : tuple of LogSupermodular
        The fields :math:`p_c`, to condition, bound or sample.
    brackets_ : tuple of Bracket
        Certified bounds on their log-partition functions.
    model_, bracket_ : LogSupermodular, Bracket
        The only field and its bounds; a mixture has neither these nor the next four.
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
    NaN, or the mask of a masked array, is an unknown entry: `fit` and `score_samples` sum over it.

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
    >>> mixture = ls.LogSupermodularDensity(n_components=2).fit(X)
    >>> sorted(model.mode().tolist() for model in mixture.models_)
    [[0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]
    """

    _OPTIONAL = ("feature_names_in_", "parameters_", "functions_", "weights_", "_energies")
    _FITTED = ("learner_", "n_features_in_", "history_", "converged_", *_OPTIONAL)

    n_features_in_: int
    weights_: FloatArray
    _energies: tuple[SubmodularFunction, ...]

    def __init__(
        self,
        functions: Any = None,
        learner: str = "auto",
        *,
        n_components: int | str = "auto",
        n_init: int = 3,
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
        self.n_components = n_components
        self.n_init = n_init
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
            0 or 1; NaN for an unknown entry.
        y : ignored

        Returns
        -------
        self
        """
        check_choice(self.learner, "learner", ["auto", *_LEARNERS])
        check_choice(self.modular, "modular", ["pixel", "shared", "none"])
        check_callback(self.callback)
        if isinstance(self.penalty, Mapping):
            for kind in self.penalty:
                check_choice(kind, "a key of penalty", ["alpha", "modular"])
        check_count(self.n_init, "n_init")
        components = _candidates.check_components(self)
        with whole(self):
            rows = self._read(X, reset=True)
            unknown = np.isnan(rows)
            if unknown.all():
                raise ValueError("X has no known entry at all")
            if self.learner not in ("auto", *_PARTIAL) and unknown.any():
                i, j = first_index(unknown)
                *others, last = map(repr, _PARTIAL)
                raise ValueError(
                    f"X[{i}, {j}] is not known, but learner={self.learner!r} needs all entries; "
                    f"use {', '.join(others)} or {last}"
                )
            if components is not None and len(rows) < components:
                raise ValueError(
                    f"n_components = {components}, but X has n_samples = {len(rows)}; give at "
                    "least one row for each component"
                )
            key = as_key(as_seed(self.random_state))
            for name in _OF_A_FIT:  # of an earlier fit
                self.__dict__.pop(name, None)
            candidates = _candidates.find_candidates(self, components, rows)
            chosen = _candidates.most_likely(candidates, rows, key, self._score_held_out)
            if has_closed_form(self, chosen):
                options = {"n_init": self.n_init, "callback": self.callback}
                self._keep(self._fit_forests(rows, chosen, key, **options))
            else:
                self._fit_field(rows, chosen.functions, key)
            self._refit()
            _ = self.brackets_  # computed now, so that no later call changes the estimator
        return self

    def _fit_field(self, rows: FloatArray, functions: Any, key: int) -> None:
        """Learn the weights of given functions."""
        self.functions_ = _fields.functions_on(functions, rows)
        examples = make_examples(self.functions_, labels=rows, modular=self.modular)
        learner = choose_exact(examples) if self.learner == "auto" else LEARNERS[self.learner]
        learned = run(self, learner, examples, key, self.callback)
        self.learner_, self.parameters_ = learner.name, learned.parameters
        self.history_, self.converged_ = tuple(learned.history), bool(learned.converged)

    def _fit_forests(
        self, rows: FloatArray, chosen: Candidate, key: int, **options: Any
    ) -> Mixture:
        """Fit as many forests as were chosen."""
        if self.tol is not None:
            options["tol"] = check_tol(self.tol)
        if self.max_iter is not None:
            options["max_iter"] = check_count(self.max_iter, "max_iter")
        return fit_mixture(rows, chosen.components, rng=np.random.default_rng(key), **options)

    def _keep(self, found: Mixture) -> None:
        """Keep fitted forests: one as any other field, several as a mixture."""
        self.learner_ = _candidates.CLOSED_FORM
        self.history_, self.converged_ = found.history, found.converged
        if len(found.forests) > 1:
            self.weights_ = found.weights
            self._energies = tuple(forest.energy() for forest in found.forests)
            return
        (forest,) = found.forests
        self.functions_ = _fields.single_pairs(forest.cut.edges, self.n_features_in_)
        alpha = forest.cut.weights if len(forest.pairs) else np.zeros(1)
        self.parameters_ = Parameters(alpha.copy(), forest.field, np.empty(0))

    def _score_held_out(
        self, candidate: Candidate, train: FloatArray, test: FloatArray, key: int
    ) -> float:
        """Return the mean log-likelihood of some rows after a fit to others."""
        if has_closed_form(self, candidate):
            return float(self._fit_forests(train, candidate, key).log_likelihood(test).mean())
        trial = clone(self).set_params(functions=candidate.functions, n_components=1)
        trial.set_params(binarize=None, callback=None, random_state=key)
        trial.set_params(options=without_paths(self.options))
        return float(trial.fit(train).score(test))

    def _refit(self) -> None:
        mixture, n = hasattr(self, "_energies"), self.n_features_in_
        sizes = {f.n for f in (self._energies if mixture else self.functions_)}
        if mixture:
            alike = len(self._energies) == len(self.weights_) and not hasattr(self, "parameters_")
        else:
            self.weights_, self.alpha_ = np.ones(1), self.parameters_.alpha
            alike = len(self.alpha_) == len(self.functions_)
            alike &= self.parameters_.modular.size in (0, 1, n)
        if not alike or sizes != {n}:
            raise ValueError("what was learned does not belong together")
        self.n_iter_: int = self.history_[-1].step if self.history_ else 0

    # Computed at first use: reading a file allocates nothing of the size that the file claims.

    @cached_property
    def modular_(self) -> FloatArray:
        """The modular term, one number per feature."""
        found = self.parameters_.modular
        return np.zeros(self.n_features_in_) + (found if found.size else 0.0)

    @cached_property
    def model_(self) -> LogSupermodular:
        """The distribution."""
        terms = zip(self.alpha_.tolist(), self.functions_, strict=True)
        return LogSupermodular(Sum(terms) - Modular(self.modular_))

    @cached_property
    def models_(self) -> tuple[LogSupermodular, ...]:
        """The fields."""
        check_is_fitted(self)
        if not hasattr(self, "_energies"):
            return (self.model_,)
        return tuple(LogSupermodular(f) for f in self._energies)

    @cached_property
    def brackets_(self) -> tuple[Bracket, ...]:
        """Certified bounds on the log-partition functions of the fields."""
        return tuple(model.bracket(n_jobs=self.n_jobs) for model in self.models_)

    @property
    def bracket_(self) -> Bracket:
        """Certified bounds on the log-partition function of the only field."""
        _ = self.model_  # refuses a mixture
        return self.brackets_[0]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _OF_A_FIT:
                check_is_fitted(self)
            if name in _SINGLE:
                raise AttributeError(
                    f"{name} is that of a single field, and this is a mixture of "
                    f"{len(self.weights_)}: see weights_ and models_, or fit with n_components=1"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def score_samples(self, X: Any, return_bracket: bool = False) -> Any:
        """Return a certified lower bound on the log-likelihood of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            For a row with unknown entries, the likelihood is that of the known ones; each such row
            takes a bracket of its own.
        return_bracket : bool, default False
            Whether to return an upper bound too.

        Returns
        -------
        lower : ndarray of shape (n_samples,)
            Equal to the log-likelihood if the log-partition function is known exactly.
        upper : ndarray of shape (n_samples,)
            With `return_bracket`.
        """
        check_is_fitted(self)
        rows = self._read(X)
        each = [
            _fields.bound_log_likelihood(model, bracket, rows, self.n_jobs)
            for model, bracket in zip(self.models_, self.brackets_, strict=True)
        ]
        parts = np.log(self.weights_)[:, None, None] + np.array(each)
        lower, upper = np.logaddexp.reduce(parts, axis=0)
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
        """Draw rows, exactly: of trees from the roots down, else by coupling from the past.

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
        rng = as_generator(as_seed(random_state))
        if len(self.models_) == 1:
            return _fields.draw(self.models_[0], count, rng, self.n_jobs)
        field = rng.choice(len(self.weights_), size=count, p=self.weights_)
        rows = np.empty((count, self.n_features_in_), dtype=np.uint8)
        for c, model in enumerate(self.models_):
            rows[field == c] = _fields.draw(model, int((field == c).sum()), rng, self.n_jobs)
        return rows

    def bracket(self, **options: Any) -> Bracket:
        """Return certified bounds on the log-partition function of a single field.

        Parameters
        ----------
        **options
            Those of `LogSupermodular.bracket`, such as a larger ``budget``.

        Returns
        -------
        Bracket
        """
        return self.model_.bracket(**{"n_jobs": self.n_jobs, **options})

    def _read(self, X: Any, reset: bool = False) -> FloatArray:
        """Return rows as float64, NaN for unknown entries."""
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan)
        checks = {"ensure_all_finite": "allow-nan", "dtype": "numeric"}
        rows: FloatArray = np.array(validate_data(self, X, reset=reset, **checks), dtype=np.float64)
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
