"""The NumPy logistic stream: published Philox answers, addressing, and the law of the draws."""

import numpy as np
import pytest
from scipy import stats

from logsuper.solvers._noise import logistic_from_bits, logistic_noise, philox4x32

KNOWN_ANSWERS = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def philox_by_the_book(counter, key):
    """Philox-4x32-10 on Python integers, one word at a time."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (
            (p1 >> 32) ^ c1 ^ k0,
            p1 & 0xFFFFFFFF,
            (p0 >> 32) ^ c3 ^ k1,
            p0 & 0xFFFFFFFF,
        )
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return [c0, c1, c2, c3]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_published_answers(counter, key, answer):
    assert philox4x32(counter, key).tolist() == answer
    assert philox_by_the_book(counter, key) == answer


def test_batched_counters_match_single_ones():
    rng = np.random.default_rng(3)
    counters = rng.integers(0, 2**32, size=(5, 7, 4), dtype=np.uint64)
    key = rng.integers(0, 2**32, size=2, dtype=np.uint64)
    batch = philox4x32(np.moveaxis(counters, -1, 0), key)
    assert batch.dtype == np.uint32
    for index in np.ndindex(5, 7):
        assert batch[index].tolist() == philox_by_the_book(
            [int(c) for c in counters[index]], [int(k) for k in key]
        )


@pytest.mark.parametrize("key", [0, 1, 2**32 + 5, 2**64 - 1])
def test_counter_and_key_layout(key):
    problems = [0, 3, 2**32 + 1, 2**64 - 1]
    samples = [0, 9, 2**32 - 1]
    n = 75
    z = logistic_noise(key, problems, samples, n)
    for p, problem in enumerate(problems):
        for s, sample in enumerate(samples):
            for d in range(n):
                words = philox_by_the_book(
                    [8 * (d // 32) + d % 8, sample, problem % 2**32, problem >> 32],
                    [key % 2**32, key >> 32],
                )
                u = (words[d // 8 % 4] + 0.5) / 2**32
                # single precision: a few units of 2^-24
                exact = np.log(u) - np.log1p(-u)
                assert abs(z[p, s, d] - exact) <= 1.2e-7 * (1 + abs(exact))


def test_any_part_of_the_stream_can_be_drawn_alone():
    whole = logistic_noise(42, range(6), range(5), 1003)
    again = logistic_noise(42, [4, 1], [3], 500)
    np.testing.assert_array_equal(again[:, 0], whole[[4, 1], 3, :500])
    assert logistic_noise(42, 5, 2, 1).shape == (1, 1, 1)


def test_chunks_do_not_show(monkeypatch):
    whole = logistic_noise(5, range(3), range(4), 101)
    monkeypatch.setattr("logsuper.solvers._noise._CHUNK", 7)
    np.testing.assert_array_equal(logistic_noise(5, range(3), range(4), 101), whole)


@pytest.mark.parametrize(("problems", "samples", "n"), [([], [1], 3), ([1], [], 3), ([1], [2], 0)])
def test_empty_requests(problems, samples, n):
    assert logistic_noise(0, problems, samples, n).shape == (len(problems), len(samples), n)


def test_extreme_words_give_finite_symmetric_numbers():
    z = logistic_from_bits(np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1], np.uint32))
    assert np.all(np.isfinite(z))
    np.testing.assert_allclose(z, -z[::-1], rtol=1.2e-7, atol=1e-18)
    assert z[-1] == pytest.approx(np.log(2.0**33 - 1))
    steps = np.diff(z)
    assert np.all(steps[[0, 1, 3, 4]] > 0)
    assert steps[2] >= 0  # single precision may round the two middle words to one


@pytest.mark.parametrize("key", [0, 1, 12345678901234567890])
def test_the_law_is_standard_logistic(key):
    z = logistic_noise(key, range(10), range(50), 200)
    assert stats.kstest(z.ravel(), stats.logistic.cdf).pvalue > 1e-3
    # Neighbours along every axis of the stream are uncorrelated: |r| is below 5 standard errors.
    for axis in range(3):
        a, b = np.delete(z, -1, axis).ravel(), np.delete(z, 0, axis).ravel()
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(a.size)


def test_different_keys_give_different_streams():
    assert not np.any(logistic_noise(0, 0, 0, 64) == logistic_noise(1, 0, 0, 64))
    assert not np.any(logistic_noise(0, 0, 0, 64) == logistic_noise(2**32, 0, 0, 64))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((-1, [0], [0], 3), ValueError, "key must be at least 0"),
        ((2**64, [0], [0], 3), ValueError, "key must be at least 0"),
        ((1.5, [0], [0], 3), TypeError, "key must be an integer"),
        ((0, [0, -4], [0], 3), ValueError, r"problems\[1\]"),
        ((0, [0, 2**64], [0], 3), ValueError, r"problems\[1\]"),
        ((0, [0, 0.5], [0], 3), TypeError, r"problems\[0\]|problems\[1\]"),
        ((0, [0], [2**32], 3), ValueError, r"samples\[0\]"),
        ((0, [[0]], [0], 3), ValueError, "problems must be one-dimensional"),
        ((0, [0], [0], -1), ValueError, "n must be at least 0"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        logistic_noise(*arguments)
