"""Temperatures: they change no decision, and make probabilities as sure as they are right."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

import logsuper as ls
from logsuper.learning import best_temperature, make_examples, means, score, soften

SHAPE = (20, 20)


def log_loss(p, x):
    return -np.where(x == 1, np.log(p), np.log1p(-p)).mean()


def claimed(rate, claim, labels=True, seed=0):
    """Return examples of a channel that claims another noise than there is."""
    x = ls.make_silhouettes(8, shape=SHAPE, seed=seed)
    z = ls.Flips(rate).sample(x, seed=seed + 1)
    return x, make_examples(
        ls.grid_cuts(SHAPE),
        labels=x if labels else None,
        observed=z,
        channel=ls.Flips(claim),
        modular="none",
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.floats(0.1, 100), st.floats(0.1, 100))
def test_softening_is_a_group_and_keeps_decisions(p, a, b):
    p = np.array(p)
    once = soften(p, a)
    clear = np.abs(p - 0.5) > 1e-9
    assert ((once > 0.5) == (p > 0.5))[clear].all()
    inner = (p > 1e-6) & (p < 1 - 1e-6) & (once > 1e-12) & (once < 1 - 1e-12)
    np.testing.assert_allclose(soften(once, b)[inner], soften(p, a * b)[inner], rtol=1e-3)
    np.testing.assert_array_equal(once[(p == 0) | (p == 1)], p[(p == 0) | (p == 1)])


def test_no_other_temperature_has_a_lower_log_loss(seed):
    x, examples = claimed(0.2, 0.05, seed=seed)
    theta = examples.layout.fill(alpha=0.7)
    best = best_temperature(examples, theta, seed=3)
    p = means(examples, theta, method="logistic", seed=3)
    least = log_loss(soften(p, best), x)
    for other in (0.5 * best, 0.9 * best, 0.99 * best, 1.01 * best, 1.1 * best, 2 * best):
        assert least <= log_loss(soften(p, other), x) + 1e-9
    assert best > 1.2  # the channel claims too little noise
    assert least < log_loss(p, x)


def test_without_coupling_the_temperature_is_that_of_the_claim():
    """Of a channel alone it is known: what it claims over what there is."""
    _, examples = claimed(0.2, 0.05)
    expected = logit(0.95) / logit(0.8)
    found = best_temperature(examples, [0.0, 0.0])
    assert found == pytest.approx(expected, rel=0.05)


def test_without_labels_hidden_pixels_decide():
    """Far too strong couplings are softened, by what hidden pixels say, as labels would."""
    x, examples = claimed(0.1, 0.1, labels=False)
    strong = examples.layout.fill(alpha=3.0)
    hot = best_temperature(examples, strong)
    assert hot > 1.3
    p = means(examples, strong, method="logistic")
    assert log_loss(soften(p, hot), x) < log_loss(p, x)
    fitting = examples.layout.fill(alpha=1.0)
    assert score(examples, fitting).value > score(examples, strong).value
    assert best_temperature(examples, fitting) < hot


def test_hidden_pixels_are_predicted_by_the_method_asked_for():
    """Exact marginals of the true model need no softening."""
    cuts, alpha = ls.grid_cuts((5, 5)), 0.6
    x = ls.LogSupermodular(alpha * cuts[0] + alpha * cuts[1]).sample(400, seed=0)
    z = ls.Flips(0.2).sample(x.reshape(-1, 5, 5), seed=1)
    examples = make_examples(cuts, observed=z, channel=ls.Flips(0.2), modular="none")
    found = {
        method: best_temperature(examples, [alpha, alpha], method=method)
        for method in ("exact", "auto", "logistic")
    }
    assert found["exact"] == found["auto"] == pytest.approx(1.0, abs=0.2)
    assert found["logistic"] != found["exact"]


def test_pixels_without_a_label_do_not_count():
    x, _ = claimed(0.2, 0.05)
    labels = x.astype(float)
    labels[:, :10] = np.nan
    z = ls.Flips(0.2).sample(x, seed=1)
    part = make_examples(
        ls.grid_cuts(SHAPE), labels=labels, observed=z, channel=ls.Flips(0.05), modular="none"
    )
    theta = part.layout.fill(alpha=0.7)
    p = np.asarray(means(part, theta, method="logistic", seed=0))
    best = best_temperature(part, theta)
    seen = ~np.isnan(labels)
    for other in (0.9 * best, 1.1 * best):
        losses = [log_loss(soften(p[seen], t), labels[seen]) for t in (best, other)]
        assert losses[0] < losses[1]


@pytest.mark.parametrize(
    ("p", "t", "match"),
    [
        ([0.5, 1.5], 1.0, "probabilities must lie in"),
        ([np.nan], 1.0, "probabilities must lie in"),
        ([0.5], 0.0, "temperature must be positive"),
        ([0.5], -1.0, "temperature must be positive"),
    ],
)
def test_what_is_no_probability_is_refused(p, t, match):
    with pytest.raises(ValueError, match=match):
        soften(p, t)


def test_softening_is_the_logistic_function_of_scaled_log_odds():
    p = np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(soften(p, 3.0), expit(logit(p) / 3.0))
