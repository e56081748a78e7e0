"""The rates at which clean patterns vanish: the channel, the law of the noise, odd tables."""

import numpy as np
import pytest

from logsuper.learning import _flip_rates
from logsuper.learning._flip_rates import fit_rates, flat_pixels
from logsuper.learning._neighbourhoods import Neighbourhood

CHAIN = Neighbourhood("chain", ((1,), (2,)))
SHORT = Neighbourhood("chain", ((1,),))
CROSS = Neighbourhood("cross", ((0, 1), (1, 0)))
BOX = Neighbourhood("box", ((1, 0), (0, 1), (1, 1), (1, -1)))
VOLUME = Neighbourhood("cross", ((0, 0, 1), (0, 1, 0), (1, 0, 0)))
ALL = [CHAIN, SHORT, CROSS, BOX, VOLUME]


def law(clean, on, off, pairs):
    """Return the probabilities of noisy classes, by enumeration of all flips of a window."""
    size = 1 + 2 * pairs
    noisy = (np.arange(2**size)[:, None] >> np.arange(size)) & 1
    one = np.where(clean, 1.0 - off, on)
    chance = np.prod(np.where(noisy, one, 1.0 - one), axis=1)
    codes = noisy[:, 0]
    for k in range(pairs):
        codes = 3 * codes + noisy[:, 1 + 2 * k] + noisy[:, 2 + 2 * k]
    return np.bincount(codes, chance, minlength=2 * 3**pairs)


@pytest.mark.parametrize("around", ALL, ids=lambda each: f"{each.kind}{len(each.pairs)}")
def test_channel_against_all_flips_of_a_window(around, seed):
    rng, pairs = np.random.default_rng(seed), len(around.pairs)
    on, off = rng.uniform(0.02, 0.4, 2)
    clean = rng.integers(0, 2, 1 + 2 * pairs)
    code = clean[0]
    for k in range(pairs):
        code = 3 * code + clean[1 + 2 * k] + clean[2 + 2 * k]
    unit = np.eye(around.classes)[code]
    seen = _flip_rates._channel_times(unit, on, off, pairs)
    np.testing.assert_allclose(seen, law(clean, on, off, pairs), atol=1e-12)
    # decoding gives the clean class back, for any function of it
    rows = rng.normal(size=(3, around.classes))
    np.testing.assert_allclose(
        _flip_rates._decode(rows, on, off, pairs) @ seen, rows @ unit, atol=1e-6
    )


@pytest.mark.parametrize("around", ALL, ids=lambda each: f"{each.kind}{len(each.pairs)}")
@pytest.mark.parametrize("rate", [0.001, 0.02, 0.1, 0.2, 0.3, 0.4])
def test_exact_on_the_law_of_the_noise_on_one_colour(around, rate):
    table = 1e7 * law(np.zeros(1 + 2 * len(around.pairs)), rate, rate, len(around.pairs))
    found = fit_rates({around: np.rint(table).astype(int)})
    assert found.on == found.off == pytest.approx(rate, abs=2e-4)
    # never better than the share of flipped pixels itself, and not much worse
    least = np.sqrt(rate * (1.0 - rate) / 1e7)
    assert 0.99 * least < np.sqrt(found.noise[0, 0]) < 12 * least


@pytest.mark.parametrize("around", [CROSS, BOX, VOLUME])
@pytest.mark.parametrize(("on", "off"), [(0.01, 0.1), (0.2, 0.05), (0.1, 0.1)])
def test_exact_on_the_law_of_two_rates(around, on, off):
    pairs = len(around.pairs)
    zeros, ones = (law(np.full(1 + 2 * pairs, color), on, off, pairs) for color in (0, 1))
    found = fit_rates({around: np.rint(1e7 * (0.8 * zeros + 0.2 * ones)).astype(int)}, True)
    np.testing.assert_allclose([found.on, found.off], [on, off], atol=5e-4)


def test_tables_of_several_neighbourhoods_speak_for_one_rate(seed):
    rng = np.random.default_rng(seed)
    tables = {
        around: rng.multinomial(4000, law(np.zeros(1 + 2 * len(around.pairs)), 0.1, 0.1, p))
        for around, p in ((BOX, 4), (CHAIN, 2), (VOLUME, 3))
    }
    found = fit_rates(tables)
    alone = [fit_rates({around: table}) for around, table in tables.items()]
    errors = [np.sqrt(fit.noise[0, 0] + fit.model[0, 0]) for fit in [found, *alone]]
    assert errors[0] < min(errors[1:])
    assert abs(found.on - 0.1) < 4 * errors[0]


@pytest.mark.parametrize("around", ALL, ids=lambda each: f"{each.kind}{len(each.pairs)}")
def test_any_table_has_an_answer(around, seed):
    rng = np.random.default_rng(seed)
    for size in (1, 2, 5, 50):
        table = rng.multinomial(size, rng.dirichlet(np.full(around.classes, 0.1)))
        for asymmetric in (False, True):
            found = fit_rates({around: table}, asymmetric)
            assert 0 < found.on <= 0.45 and 0 < found.off <= 0.45
            assert np.isfinite(found.noise).all() and np.isfinite(found.model).all()
            assert np.linalg.eigvalsh(found.noise + found.model)[0] > 0


def test_flat_pixels_are_those_of_each_colour():
    zeros = law(np.zeros(9), 0.1, 0.1, 4)
    table = np.rint(1e6 * zeros).astype(int)
    flat = flat_pixels({BOX: table}, 0.1)
    assert 0.98e6 < flat[0] < 1e6 and flat[1] < 25
