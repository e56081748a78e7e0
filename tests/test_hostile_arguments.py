"""Arguments from which the fuzz got an opaque error, a warning or a wrong result."""

import functools
import re

import numpy as np
import pytest

import logsuper as ls
from logsuper import learning
from logsuper.channels import Gaussian
from logsuper.datasets import corrupt
from tests.oracles import FAMILIES

CUT = ls.Cut(3, [(0, 1), (1, 2)])
SHAPE = (3, 4)
RAGGED = [np.zeros(1), np.zeros(2)]


def returns(value):
    return lambda *arguments, **options: value


@functools.cache
def examples(scale=False):
    x = np.zeros((4, *SHAPE))
    x[:, :2, 1:] = 1.0
    return learning.make_examples(
        ls.grid_cuts(SHAPE),
        labels=x,
        observed=x,
        channel=ls.Flips(0.1),
        modular="shared",
        scale=scale,
    )


def penalty(**weights):
    return learning.Penalty.of(examples().layout, **weights)


def made(**changes):
    x = np.zeros((2, *SHAPE))
    given = {"functions": ls.grid_cuts(SHAPE), "labels": x} | changes
    return learning.make_examples(given.pop("functions"), **given)


CASES = {
    # functions
    "a flag that is an array": (
        lambda: ls.SetFunction(len, 2, check=np.zeros(2)),
        TypeError,
        "check must be True or False",
    ),
    "g returns a list": (
        lambda: ls.ConcaveOfModular(returns([]), [1.0, 2.0]),
        TypeError,
        "g(0) returned []",
    ),
    "w without a finite sum": (
        lambda: ls.ConcaveOfModular(np.sqrt, [1.7e308] * 3),
        ValueError,
        "the sum of w overflows",
    ),
    "a value that overflows": (
        lambda: ls.FacilityLocation(np.full((3, 2), 1.7e308))([1, 1]),
        ValueError,
        "the values of FacilityLocation(n=2, users=3) must be finite",
    ),
    "a cut that overflows": (
        lambda: CUT.with_weights([1.7e308, 1.7e308])([0, 1, 0]),
        ValueError,
        "sums of its weights overflow",
    ),
    "an expectation that overflows": (
        lambda: ls.Modular([1.7e308, 1.7e308]).multilinear([1.0, 1.0]),
        ValueError,
        "sums of its weights overflow",
    ),
    "a kernel of the largest numbers": (
        lambda: ls.LogDet(np.full((2, 2), -1.7e308)),
        ValueError,
        "K must be positive definite",
    ),
    "a modular term that overflows": (
        lambda: 1.7e308 * (CUT + ls.Modular([1.0, 2.0, 3.0])),
        ValueError,
        "the sum of the modular terms overflows",
    ),
    "three axes of labels for a graph": (
        lambda: CUT.graph().value(np.zeros((1, 3, 3))),
        ValueError,
        "Y must have shape (M, 3)",
    ),
    "neighbours in a list": (
        lambda: ls.grid_cuts((2, 2), neighbors=[4]),
        ValueError,
        "neighbors must be one of 4, 8 for 2 axes, got [4]",
    ),
    "arcs outside of the graph": (
        lambda: ls.PairwiseGraph.from_arcs(2, 0, [0], [2], [1.0]),
        ValueError,
        "heads[0] = 2 is outside [0, 2)",
    ),
    "arcs without a cost": (
        lambda: ls.PairwiseGraph.from_arcs(2, 0, [0], [1], []),
        ValueError,
        "tails, heads and costs must be of equal length",
    ),
    "a repulsive arc": (
        lambda: ls.PairwiseGraph.from_arcs(2, 0, [0], [1], [-1.0]),
        ValueError,
        "costs[0]",
    ),
    "an infinite field of a graph": (
        lambda: ls.PairwiseGraph.from_arcs(2, unary=-np.inf),
        ValueError,
        "unary = -inf is not finite",
    ),
    # solvers and models
    "functions that are none": (lambda: ls.prepare(None), TypeError, "functions must be a list"),
    "a complex shift": (
        lambda: ls.min_norm_point(CUT).maximizer(1j),
        TypeError,
        "shift must hold real numbers",
    ),
    "a list for a method": (
        lambda: ls.LogSupermodular(CUT).log_partition(["exact"]),
        ValueError,
        "method must be one of auto, exact",
    ),
    "a dictionary for a method of marginals": (
        lambda: ls.LogSupermodular(CUT).marginals({}),
        ValueError,
        "method must be one of auto, exact",
    ),
    "a set for a sampler": (
        lambda: ls.LogSupermodular(CUT).sample(1, set()),
        ValueError,
        "method must be one of cftp",
    ),
    "an array for a side": (
        lambda: ls.LogSupermodular(CUT).log_prob([0, 0, 0], side=np.zeros(2)),
        ValueError,
        "side must be one of auto, exact, lower, upper",
    ),
    "half a sweep": (
        lambda: ls.LogSupermodular(CUT).marginals("mean_field", max_iter=1.5),
        TypeError,
        "max_iter must be an integer",
    ),
    "more sweeps than can be counted": (
        lambda: ls.LogSupermodular(CUT).marginals("mean_field", max_iter=2**63),
        ValueError,
        "max_iter must be at least 1 and below",
    ),
    "a kind of channel instead of one": (
        lambda: ls.LogSupermodular(CUT).observe(ls.Flips, [0, 1, 0]),
        TypeError,
        "channel must be a channel such as Flips(0.1)",
    ),
    "samples or not, as a word": (
        lambda: ls.prepare([CUT]).perturb(np.zeros(3), [1.0], 2, 0, return_samples="yes"),
        TypeError,
        "return_samples must be True or False",
    ),
    "energies without a variance": (
        lambda: ls.LogSupermodular(1e200 * CUT).log_partition("ti", sampler="gibbs", seed=0),
        ValueError,
        "the squared energies of",
    ),
    # channels
    "flips of grey levels": (
        lambda: ls.Flips(0.1).count([0.3], [1.0]),
        ValueError,
        "observed[0] = 0.3 is neither 0 nor 1",
    ),
    "asymmetric flips of grey levels": (
        lambda: ls.AsymmetricFlips(0.1, 0.2).count([1.7e308, 1.7e308], [0.0, 0.0]),
        ValueError,
        "is neither 0 nor 1",
    ),
    "a word for a shape": (
        lambda: ls.Flips(0.1).divergence("x"),
        TypeError,
        "shape[0] must be an integer",
    ),
    "a shape beyond all memory": (
        lambda: ls.Flips(0.1).divergence((2**30, 2**30)),
        ValueError,
        "has more entries than memory can hold",
    ),
    "two scales of different length": (
        lambda: Gaussian(scale=RAGGED),
        ValueError,
        "scale must be a rectangular array",
    ),
    "observations whose squares overflow": (
        lambda: Gaussian().count([1e200], [1.0]),
        ValueError,
        "observed has entries so large that their squares overflow",
    ),
    "counts without a variance": (
        lambda: Gaussian().refit([1e-300, 1e200, 1e200, 1.0, 1.0, 1.0]),
        ValueError,
        "counts have no finite means and spreads",
    ),
    "counts that are a dictionary": (
        lambda: ls.Flips(0.1).refit({}),
        TypeError,
        "counts must hold real numbers",
    ),
    "a mean that is a set": (
        lambda: ls.Flips(0.1).count([0, 1], {0, 1}),
        TypeError,
        "mean must hold real numbers",
    ),
    # data sets
    "a picture too wide to exist": (
        lambda: ls.make_silhouettes(1, (16, 2**63)),
        ValueError,
        "shape: the width must be at least 16 and below",
    ),
    "a negative seed": (
        lambda: ls.make_silhouettes(1, seed=-1),
        ValueError,
        "seed must be at least 0",
    ),
    "images that are a number": (
        lambda: corrupt(np.array(1.0), ls.Flips(0.1)),
        TypeError,
        "images must be a stack or a list of images",
    ),
    "images of two shapes": (
        lambda: corrupt(RAGGED, ls.Flips(0.1)),
        ValueError,
        "images must be of one shape",
    ),
    # learning
    "features of enormous size": (
        lambda: made(features=np.full((2, *SHAPE, 1), 1e200)),
        ValueError,
        "features[0][0, 0, 0] = 1e+200: larger than 1e+70",
    ),
    "features that are a number": (
        lambda: made(features=np.array(1.0)),
        TypeError,
        "features must be an array or a list",
    ),
    "features that are words": (
        lambda: made(features=[["x"], ["y"]]),
        TypeError,
        "features[0] must hold real numbers",
    ),
    "functions of enormous size": (
        lambda: made(functions=[1e218 * f for f in ls.grid_cuts(SHAPE)]),
        ValueError,
        "the gain of functions[0]",
    ),
    "log-odds of enormous size": (
        lambda: made(
            observed=np.full((2, *SHAPE), 0.3), channel=Gaussian((0.0, 1e150), 1.0), labels=None
        ),
        ValueError,
        "the log-odds of observed",
    ),
    "a list for a flag": (lambda: made(scale=[]), TypeError, "scale must be True or False"),
    "a modular term that is a list": (
        lambda: made(modular=["pixel"]),
        ValueError,
        "modular must be one of pixel, shared, none",
    ),
    "the penalty of no layout": (
        lambda: learning.Penalty.of("layout"),
        TypeError,
        "layout must be a Layout",
    ),
    "a penalty of enormous size": (
        lambda: penalty(alpha=1e200),
        ValueError,
        "penalty of alpha = 1e+200 must be 0 or from 1e-70 to 1e+70",
    ),
    "a tolerance that is a list": (
        lambda: learning.exact(examples(), penalty(), tol=[1e-3]),
        TypeError,
        "tol must be a real number",
    ),
    "an enormous rate": (
        lambda: learning.logistic(examples(), penalty(), rate=1.7e308),
        ValueError,
        "rate = 1.7e+308 must be positive, from",
    ),
    "an engine that is a number": (
        lambda: learning.log_evidence(examples(), np.ones(3), 1.0),
        TypeError,
        "engine must be an engine",
    ),
    "factors that are words": (
        lambda: learning.best_factor(examples(), np.ones(3), ["x"]),
        TypeError,
        "factors must hold real numbers",
    ),
    "a learner that is a number": (
        lambda: learning.path(1.0, examples(), [penalty()]),
        TypeError,
        "learner must be callable",
    ),
    "a learner that returns a number": (
        lambda: learning.path(returns(1.0), examples(), [penalty()]),
        TypeError,
        "learner must return Learned, got a float",
    ),
    "a score that is a number": (
        lambda: learning.cross_validate(learning.lfield, examples(), [penalty()], score=1.0),
        ValueError,
        "score must be one of map, mean or callable",
    ),
    "penalties that are a number": (
        lambda: learning.cross_validate(learning.lfield, examples(), 1.0),
        TypeError,
        "penalties must be a list of Penalty",
    ),
    "threads that are half a number": (
        lambda: learning.modes(examples(), np.ones(3), n_jobs=0.5),
        TypeError,
        "n_jobs must be an integer",
    ),
    # estimators
    "an array without axes": (
        lambda: ls.MaskDenoiser(0.1).fit(np.array(None)),
        ValueError,
        "noisy must be a stack",
    ),
    "more samples than can be counted": (
        lambda: ls.LogSupermodularDensity().fit(np.eye(4, dtype=int)).sample(2**64),
        ValueError,
        "n_samples must be below 2**31",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_in_our_own_words(name):
    call, error, message = CASES[name]
    with pytest.raises(error, match=re.escape(message)):
        call()


DECODERS = {
    "modes": {},
    "means": {},
    "samples": {},
    "best_factor": {},
    "log_evidence": {"engine": learning.Exact()},
    "bracket_log_evidence": {},
}


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_refuse_what_is_no_data(name):
    with pytest.raises(TypeError, match="examples must be what make_examples returns, got a list"):
        getattr(learning, name)([[0, 1]], theta=np.ones(3), **DECODERS[name])


@pytest.mark.parametrize(
    "name", ["logistic", "saa", "exact", "pseudo", "lfield", "max_margin", "marginal"]
)
def test_learners_refuse_a_callback_before_any_work(name):
    weights = penalty(alpha=0.1, modular=0.1)
    with pytest.raises(TypeError, match="callback must be callable or None, got list"):
        getattr(learning, name)(examples(), weights, callback=[])


def test_a_mixture_whose_weights_all_vanish():
    assert not ls.gaussian_mixture_graph(3, decay=1e308).cut.weights.any()


@pytest.mark.parametrize("size", [1e223, 1e-223])
def test_maximisers_of_any_magnitude(size):
    rng = np.random.default_rng(0)
    f = ls.LogDet(np.eye(4) + 0.5)
    theta = rng.normal(size=(20, 4))
    y, values = ls.maximize(size * f, size * theta)
    expected, best = ls.maximize(f, theta)
    assert (y == expected).all()
    np.testing.assert_allclose(values / size, best)


@pytest.mark.parametrize("size", [2.0**660, 2.0**1000, 2.0**-660])
@pytest.mark.parametrize("family", ["cut", "grid", "coverage", "log-det"])
def test_min_norm_points_of_any_magnitude(family, size):
    f = FAMILIES[family](np.random.default_rng(0), 4)
    found, expected = ls.min_norm_point(size * f), ls.min_norm_point(f)
    assert found.converged
    np.testing.assert_allclose(found.s / size, expected.s, atol=1e-9)
