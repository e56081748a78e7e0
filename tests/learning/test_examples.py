"""What learners are given: every kind of data, and one clear error for what is none."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import logsuper as ls
from logsuper import learning
from logsuper.learning import make_examples

SHAPE = (2, 3)
EDGES = 7
X = np.indices(SHAPE).sum(axis=0)[None] % 2
ONE = {"labels": X, "observed": X, "channel": ls.Flips(0.1)}


def replaced(values: np.ndarray, at: tuple[int, ...], value: float) -> np.ndarray:
    values = values.astype(float)
    values[at] = value
    return values


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"labels": None, "observed": None}, "labels, observed and features are all"),
    "no features": (
        {"labels": None, "observed": None, "features": np.zeros((0, 2, 3, 1))},
        "features is empty",
    ),
    "no pixels": (
        {"labels": None, "observed": None, "features": [0.0]},
        r"features\[0\] has shape \(\); give one row per pixel",
    ),
    "no channel": ({"channel": None}, "observed needs a channel"),
    "modular": ({"modular": "all"}, "modular must be one of pixel, shared, none"),
    "scale": ({"observed": None, "scale": True}, "give observed"),
    "context": ({"context": 1, "observed": None}, "context .* needs observed"),
    "context and features": ({"context": 1, "features": X[..., None]}, "takes the place of"),
    "far context": ({"context": 65}, "context"),
    "no images": ({"labels": np.zeros((0, 2, 3))}, "labels is empty"),
    "one row": ({"labels": np.zeros(6)}, "labels must hold images"),
    "count": ({"labels": np.zeros((2, 2, 3))}, "labels has 2 images, observed 1"),
    "shapes": ({"labels": np.zeros((1, 3, 2))}, r"labels\[0\] has shape \(3, 2\), observed\[0\]"),
    "label": ({"labels": replaced(X, (0, 1, 2), 2.0)}, r"labels\[0\]\[1, 2\] = 2.0 is neither"),
    "infinite": ({"observed": replaced(X, (0, 1, 2), np.inf)}, r"observed\[0\] has an infinite"),
    "functions": ({"functions": ls.grid_cuts((2, 2))}, "functions have n = 4, but .* 6 pixels"),
    "features": ({"features": np.zeros((2, 2, 3, 1))}, "features is for 2 images"),
    "feature": ({"features": np.full((1, 2, 3, 1), np.nan)}, r"features\[0\].* is not finite"),
    "feature size": (
        {"features": np.zeros((1, 7, 1))},
        r"features\[0\] has shape \(7, 1\), but the image \(2, 3\): give the p features of a pixel "
        r"last, \(2, 3, p\)",
    ),
    "features first": ({"features": np.zeros((1, 4, 2, 3))}, r"shape \(4, 2, 3\), but the image"),
    "features turned": ({"features": np.zeros((1, 3, 2, 4))}, r"shape \(3, 2, 4\), but the image"),
    "one feature": ({"features": np.zeros((1, 2, 3))}, r"shape \(2, 3\), but the image"),
    "no axis": ({"features": [1.0]}, r"features\[0\] has shape \(\), but the image"),
    "feature count": (
        {"labels": np.zeros((2, 2, 3)), "observed": None}
        | {"features": [np.zeros((2, 3, 1)), np.zeros((2, 3, 2))]},
        "features differs in shape between images",
    ),
    "masked feature": (
        {"features": np.ma.masked_equal(X[..., None], 1)},
        r"features\[0\] has masked entries; fill them",
    ),
    "masked factor": (
        {"edge_weights": [np.ma.masked_greater(np.arange(EDGES), 3)]},
        r"edge_weights\[0\] has masked entries; fill them",
    ),
    "factors": ({"edge_weights": np.ones((2, EDGES))}, "edge_weights is for 2 images"),
    "factor": ({"edge_weights": np.full((1, EDGES), np.inf)}, r"edge_weights\[0\].* not finite"),
    "factor size": (
        {"edge_weights": np.ones((1, EDGES + 1))},
        r"edge_weights\[0\] has shape \(8,\), .* 7 edges: give \(7,\) or \(2, 7\)",
    ),
    "factor for each function": ({"edge_weights": np.ones((1, 3, EDGES))}, r"shape \(3, 7\)"),
    "negative factor": (
        {"edge_weights": replaced(np.ones((1, EDGES)), (0, 4), -1.0)},
        r"edge_weights\[0\]\[4\] = -1: a negative weight is repulsive",
    ),
    "factors without edges": (
        {"edge_weights": np.ones((1, EDGES)), "functions": [ls.Modular(np.zeros(6))]},
        "the functions on this image have none",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_clear_error(case: str) -> None:
    changes, message = WRONG[case]
    given = {"functions": ls.grid_cuts(SHAPE), **ONE, **changes}
    with pytest.raises(ValueError, match=message):
        make_examples(given.pop("functions"), **given)


def test_shapes_that_differ_need_a_shared_term() -> None:
    images = [np.zeros((2, 3)), np.zeros((3, 2))]
    with pytest.raises(ValueError, match="modular='pixel' needs images of one shape"):
        make_examples(ls.grid_cuts, labels=images)
    with pytest.raises(ValueError, match=r"functions returns \[1, 2\] functions"):
        make_examples(
            lambda shape: ls.grid_cuts(shape)[: shape[0] - 1], labels=images, modular="shared"
        )


def test_features_of_a_pixel_keep_their_place() -> None:
    """Features with the axes of the image, flat ones and those of chains are read alike."""
    phi = np.arange(24.0).reshape(2, *SHAPE, 2)
    unmasked = np.ma.masked_array(phi, np.zeros(phi.shape, dtype=bool))
    for given in (phi, phi.reshape(2, 6, 2), list(phi), unmasked, [phi[0], phi[1].reshape(6, 2)]):
        data = make_examples(ls.grid_cuts(SHAPE), labels=np.zeros((2, *SHAPE)), features=given)
        np.testing.assert_array_equal(data.groups[0].features.values, phi.reshape(2, 6, 2))
    chain = make_examples(
        [ls.Cut(6, [(0, 1)])], labels=np.zeros((2, 6)), features=phi.reshape(2, 6, 2)
    )
    np.testing.assert_array_equal(chain.groups[0].features.values, phi.reshape(2, 6, 2))


def test_fields_and_statistics_are_those_of_the_definition(seed: int) -> None:
    """u = t + Phi beta + w l, and theta' phi(x) = u'x - sum alpha f(x)."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (3, *SHAPE))
    z = np.where(rng.random(x.shape) < 0.2, np.nan, ls.Flips(0.2).sample(x, rng))
    phi, factors = rng.normal(size=(3, *SHAPE, 2)), rng.exponential(size=(3, EDGES))
    data = make_examples(
        ls.grid_cuts(SHAPE),
        labels=np.ma.masked_array(x, np.zeros(x.shape, dtype=bool)),
        observed=z,
        channel=ls.Flips(0.2),
        features=phi,
        edge_weights=factors,
        scale=True,
    )
    theta = rng.exponential(size=data.layout.size)
    found = data.layout.unpack(theta)
    (group,), rows = data.groups, np.array([2, 0])
    odds = ls.Flips(0.2).log_odds(z).reshape(3, -1)[rows]
    flat = phi.reshape(3, 6, 2)[rows]
    expected = found.modular + flat @ found.beta + found.scale * odds
    fields = data.fields(theta, group, rows)
    np.testing.assert_allclose(fields, expected, atol=1e-12)
    prior = data.fields(theta, group, rows, observed=False)
    np.testing.assert_allclose(prior, expected - found.scale * odds, atol=1e-12)
    statistics = data.statistics(group, rows, data.label_moments(group, rows))
    ends = group.prepared.edges
    for row, phi_x, field in zip(rows, statistics, fields, strict=True):
        image = x[row].ravel()
        apart = factors[row] * (image[ends[:, 0]] != image[ends[:, 1]])
        across = ends[:, 1] - ends[:, 0] == 1  # the edges of the first function
        energy = np.array([apart[across].sum(), apart[~across].sum()])
        assert phi_x @ theta == pytest.approx(field @ image - found.alpha @ energy)


@pytest.mark.parametrize("channel", [0.1, "flips", [ls.Flips(0.1)], ls.Flips])
def test_a_channel_is_needed_not_its_rate(channel: Any) -> None:
    with pytest.raises(TypeError, match=r"channel must be a channel, such as Flips\(0.1\), got a "):
        make_examples(ls.grid_cuts(SHAPE), observed=X, channel=channel)


@pytest.mark.parametrize(
    "learner", ["exact", "latent", "lfield", "logistic", "max_margin", "moments", "pseudo", "saa"]
)
def test_every_learner_says_what_it_needs(learner: str) -> None:
    learn = getattr(learning, learner)
    data = make_examples(ls.grid_cuts(SHAPE), **ONE)
    with pytest.raises(TypeError, match=r"penalty must be a Penalty, such as .*, got a float"):
        learn(data, 0.1)
    with pytest.raises(TypeError, match="examples must be what make_examples returns, got a ndar"):
        learn(X, learning.Penalty.of(data.layout))
    with pytest.raises(ValueError, match="penalty is for 9 parameters, these examples have 8"):
        learn(data, learning.Penalty.of(learning.Layout(3, 6)))


def test_optimisers_say_what_they_need() -> None:
    objective = learning.Objective.supervised(
        make_examples(ls.grid_cuts(SHAPE), **ONE), learning.FreshNoise(1, 0)
    )
    for optimise in (learning.descend, learning.minimize):
        with pytest.raises(TypeError, match="penalty must be a Penalty"):
            optimise(objective, 0.1)


@pytest.mark.parametrize(
    "channel",
    [
        ls.Flips(0.1),
        ls.AsymmetricFlips(0.02, 0.3),
        ls.Flips(np.linspace(0.05, 0.4, 20).reshape(4, 5)),
        ls.Flips([0.1, 0.3], groups=np.arange(20).reshape(4, 5) % 2),
        ls.AsymmetricFlips(0.0, 0.3),  # a one leaves no doubt
    ],
)
def test_log_odds_of_bits_are_those_of_the_channel(channel):
    rng = np.random.default_rng(0)
    seen = rng.integers(0, 2, (7, 4, 5)).astype(float)
    for observed in (seen, np.where(rng.random(seen.shape) < 0.3, np.nan, seen), 0.0 * seen):
        data = make_examples(ls.grid_cuts((4, 5)), observed=observed, channel=channel)
        [group] = data.groups
        rows = np.array([5, 0, 3])
        for kept in (group, dataclasses.replace(group, odds=None, around=None)):
            found = data.log_odds(kept, rows).reshape(3, 4, 5)
            np.testing.assert_array_equal(found, channel.log_odds(observed[rows]))
