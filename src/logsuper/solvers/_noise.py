r"""Counter-based standard logistic noise, as plain NumPy.

The noise of perturb-and-MAP is a *function* of four numbers: a key, the problem, the sample and the
element. No state is carried from one draw to the next, so any part of the stream can be computed
alone, in any order and on any number of threads, with the same result. The compiled kernel
evaluates the same function; this module is its reference, and its replacement if it is missing.

The stream is Philox-4x32 with ten rounds [1]_. The 64-bit key gives the two key words (low word
first). The four counter words are

.. math:: (8 \lfloor d / 32 \rfloor + d \bmod 8,\; \text{sample},\;
          \text{problem} \bmod 2^{32},\; \lfloor \text{problem} / 2^{32} \rfloor),

and element :math:`d` takes output word :math:`\lfloor d / 8 \rfloor \bmod 4`: eight counters yield
32 consecutive elements, word by word, which suits vector units. An output word :math:`r` is turned
into a uniform number that is never 0 or 1, and then into a logistic one,

.. math:: u = \frac{r + 1/2}{2^{32}}, \qquad
          z = \log u - \log(1 - u) = \log \frac{r + 1/2}{2^{32} - r - 1/2},

so that :math:`|z| \le \log(2^{33} - 1) \approx 22.87`. It is evaluated in single precision, with an
error of the distribution below 1e-7; the kernel draws eight numbers at a time.

References
----------
.. [1] J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel random numbers: as easy as
   1, 2, 3", SC'11, 2011. Section 3.3 and the known-answer vectors of the Random123 distribution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base import FloatArray, IntArray, check_integer

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = 0x9E3779B9
_WEYL_1 = 0xBB67AE85
_ROUNDS = 10
_MASK_32 = 0xFFFFFFFF
_LOW = np.uint64(_MASK_32)
_SHIFT = np.uint64(32)

# Counters per chunk; limits the temporaries (a handful of uint64 arrays) to a few megabytes.
_CHUNK = 1 << 16


def philox4x32(counter: Sequence[ArrayLike], key: Sequence[int]) -> NDArray[np.uint32]:
    """Apply the ten-round Philox-4x32 bijection to 128-bit counters.

    Parameters
    ----------
    counter : sequence of four array_like of int
        The words of the counters, in ``[0, 2**32)``, of shapes that broadcast to (...).
    key : sequence of two int
        Key words in ``[0, 2**32)``, shared by all counters.

    Returns
    -------
    ndarray of uint32, shape (..., 4)

    Examples
    --------
    >>> [hex(int(r)) for r in philox4x32([0, 0, 0, 0], [0, 0])]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    c0, c1, c2, c3 = (np.asarray(word, dtype=np.uint64) for word in counter)
    k0, k1 = (int(word) for word in key)
    for _ in range(_ROUNDS):
        product_0 = _MULTIPLIER_0 * c0
        product_1 = _MULTIPLIER_1 * c2
        c0, c1, c2, c3 = (
            (product_1 >> _SHIFT) ^ c1 ^ np.uint64(k0),
            product_1 & _LOW,
            (product_0 >> _SHIFT) ^ c3 ^ np.uint64(k1),
            product_0 & _LOW,
        )
        k0 = (k0 + _WEYL_0) & _MASK_32
        k1 = (k1 + _WEYL_1) & _MASK_32
    return np.stack(np.broadcast_arrays(c0, c1, c2, c3), axis=-1).astype(np.uint32)


def logistic_from_bits(bits: ArrayLike) -> FloatArray:
    r"""Turn 32-bit words into standard logistic numbers, ``log((r + 1/2) / (2**32 - r - 1/2))``.

    The arithmetic is that of the kernel, step by step in single precision, so that both give the
    same bits. With :math:`a = r + 1/2`, :math:`b = 2^{32} - a`, and :math:`c = 2^k b` where k makes
    the bit pattern of c, as a single-precision float, nearest to that of a,

    .. math:: z = k \log 2 + 2 \operatorname{atanh} s, \qquad s = (a - c) / (a + c).

    Parameters
    ----------
    bits : array_like of int
        Words in ``[0, 2**32)``.

    Returns
    -------
    ndarray of float64, of the same shape

    Examples
    --------
    >>> z = logistic_from_bits([0, 2**30, 2**31, 2**32 - 1])
    >>> [round(float(v), 4) for v in z]
    [-22.8739, -1.0986, 0.0, 22.8739]
    """
    word = np.asarray(bits, dtype=np.uint32)
    a, b = _as_single(word), _as_single(~word)
    octave = np.int32(1 << 23)
    a_bits, b_bits = a.view(np.int32), b.view(np.int32)
    octaves = a_bits - b_bits + (128 * octave + octave // 2)
    c = (b_bits + ((octaves & -octave) - 128 * octave)).view(np.float32)
    k = ((octaves >> 23) - 128).astype(np.float32)
    s = (a - c) / (a + c)
    q = s * s
    p = np.full_like(q, _SERIES[0])
    for coefficient in _SERIES[1:]:
        p = p * q + coefficient
    z: NDArray[np.float32] = k * np.float32(0.693147181) + (s * np.float32(2) + s * q * p)
    return z.astype(np.float64)


# 2 / 11, 2 / 9, ..., 2 / 3: coefficients of the series of 2 atanh(s) after the term 2 s
_SERIES = [np.float32(2) / np.float32(odd) for odd in (11, 9, 7, 5, 3)]


def _as_single(word: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Return r + 1/2, rounded to single precision from its two halves."""
    high = (word >> np.uint32(16)).astype(np.float32)
    low = (word & np.uint32(0xFFFF)).astype(np.float32)
    return np.atleast_1d(high * np.float32(65536) + (low + np.float32(0.5))).reshape(word.shape)


def logistic_noise(key: int, problems: ArrayLike, samples: ArrayLike, n: int) -> FloatArray:
    """Draw the standard logistic noise of given problems and samples.

    Parameters
    ----------
    key : int
        Stream key in ``[0, 2**64)``.
    problems : array_like of int, shape (P,)
        Problem numbers in ``[0, 2**64)``; a scalar is treated as one problem.
    samples : array_like of int, shape (S,)
        Sample numbers in ``[0, 2**32)``; a scalar is treated as one sample.
    n : int
        Number of elements, at most ``2**34``.

    Returns
    -------
    ndarray of float64, shape (P, S, n)
        Entry ``[p, s, d]`` depends on ``key``, ``problems[p]``, ``samples[s]`` and ``d`` alone.

    Examples
    --------
    >>> z = logistic_noise(7, [0, 1], range(3), 5)
    >>> z.shape
    (2, 3, 5)
    >>> bool(np.array_equal(z[1, 2, :3], logistic_noise(7, 1, 2, 3)[0, 0]))
    True
    """
    key = check_integer(key, "key", 0, 2**64)
    n = check_integer(n, "n", 0, 2**34 + 1)
    problem = as_words(problems, "problems", 64)
    sample = as_words(samples, "samples", 32)

    pairs = problem.size * sample.size
    groups = -(-n // 32)
    result = np.empty((pairs, n), dtype=np.float64)
    if result.size == 0:
        return result.reshape(problem.size, sample.size, n)
    which_problem = np.repeat(problem, sample.size)
    which_sample = np.tile(sample, problem.size)
    group_step = max(1, min(groups, _CHUNK // 8))
    pair_step = max(1, _CHUNK // (8 * group_step))
    for first in range(0, pairs, pair_step):
        rows = slice(first, first + pair_step)
        p = which_problem[rows, None]
        s = which_sample[rows, None]
        for group in range(0, groups, group_step):
            stop = min(groups, group + group_step)
            counter = np.arange(8 * group, 8 * stop, dtype=np.uint64)[None, :]
            words = philox4x32([counter, s, p & _LOW, p >> _SHIFT], [key & _MASK_32, key >> 32])
            in_order = words.reshape(len(words), stop - group, 8, 4).swapaxes(2, 3)
            columns = slice(32 * group, min(n, 32 * stop))
            flat = in_order.reshape(len(words), -1)[:, : columns.stop - columns.start]
            result[rows, columns] = logistic_from_bits(flat)
    return result.reshape(problem.size, sample.size, n)


def logistic_of(key: int, problem: int, sample: int, elements: IntArray) -> FloatArray:
    """Return the noise of given elements, an array of any shape, of one sample.

    Examples
    --------
    >>> whole = logistic_noise(7, 1, 2, 90)[0, 0]
    >>> bool((logistic_of(7, 1, 2, np.array([3, 77])) == whole[[3, 77]]).all())
    True
    """
    place = np.asarray(elements, dtype=np.uint64)
    counter = np.uint64(8) * (place // np.uint64(32)) + place % np.uint64(8)
    fixed = [sample, problem & _MASK_32, problem >> 32]
    words = philox4x32([counter, *fixed], [key & _MASK_32, key >> 32])
    which = (place // np.uint64(8) % np.uint64(4)).astype(np.int64)
    return logistic_from_bits(np.take_along_axis(words, which[..., None], axis=-1)[..., 0])


def as_words(values: ArrayLike, name: str, bits: int) -> NDArray[np.uint64]:
    """Return a number or list of integers in ``[0, 2**bits)`` as a uint64 vector."""
    given = np.atleast_1d(np.asarray(values))
    if given.ndim > 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {given.shape}")
    if given.size and given.dtype.kind not in "iu":
        # numpy makes a list with integers of 2**63 or more an array of floats or objects
        exact = np.atleast_1d(np.asarray(values, dtype=object))
        for k, value in enumerate(exact):
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise TypeError(
                    f"{name} must hold integers, got dtype {given.dtype}: {name}[{k}] = {value!r}"
                )
        given = exact
    bad = np.asarray((given < 0) | (given >= 2**bits), dtype=bool)
    if bad.any():
        k = int(bad.argmax())
        raise ValueError(f"{name}[{k}] = {given[k]} must be at least 0 and below 2**{bits}")
    return given.astype(np.uint64)
