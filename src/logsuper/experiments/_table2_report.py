"""Table 2 in words and tables."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from logsuper._base import FloatArray
from logsuper.experiments._section import Grid, spread, spread_note
from logsuper.experiments._setting import Setting
from logsuper.experiments.table2 import DECODINGS, METHODS, Result

__all__ = ["grids", "text"]


def grids(result: Result, setting: Setting) -> tuple[Grid, ...]:
    """Return the errors with the noise known and unknown, the rates found, and the boundaries."""
    errors = (_errors(result, known, not setting.shipped) for known in (True, False))
    return (*errors, _rates(result), _boundaries(result))


def text(result: Result, setting: Setting) -> tuple[str, ...]:
    """Return what the numbers say, in paragraphs."""
    against = "The paper's numbers are about horses: they cannot be compared with."
    if not setting.shipped:
        against = _against_the_paper(result)
    return (
        _what_was_done(result, setting),
        " ".join([against, *_failures(result)]),
        _others(result, not setting.shipped),
        _oversmoothing(result),
    )


# ------------------------------------------------------------------------------------------ tables


def _errors(result: Result, known: bool, compared: bool) -> Grid:
    """Return the errors, beside the paper's where these are about the same images."""
    rows = [
        ("paper", name, *(f"{number:.1f}" for number in result.paper(known, name)))
        for name in (DECODINGS if compared else ())
    ]
    above = len(rows)
    ours = [i for i, method in enumerate(METHODS) if method.known == known]
    for i in ours:
        for d, name in enumerate(DECODINGS):
            cells = _spread(result.error[i, :, :, d])
            if compared:
                change = result.error[i, :, :, d].mean(axis=1) - result.paper(known, name)
                cells = [f"{x} ({by + 0.0:+.2f})" for x, by in zip(cells, change, strict=True)]
            rows.append((METHODS[i].label, name, *cells))
    found = np.concatenate([result.error[i].mean(axis=1).T for i in ours])  # (rows, noises)
    best = {(above + int(np.argmin(column)), 2 + c) for c, column in enumerate(found.T)}
    word = _word(known)
    brackets = "; in brackets the difference from the paper" if compared else ""
    return Grid(
        f"table2_{word}",
        f"Percent of wrong pixels, noise {word}",
        ("learned by", "decoding", *_percents(result)),
        tuple(rows),
        f"{_sentence(spread_note(result.seeds))}{brackets}. MAP is one cut, mean 100 "
        "perturbations.",
        _csv(result, ours),
        frozenset(best),
    )


def _rates(result: Result) -> Grid:
    (latent,) = result.of(known=False, latent=True)
    free = result.of(known=False, latent=False)[0]
    rows = (
        ("without a model", *_spread(100.0 * result.rate[free])),
        ("paper's objective", *_spread(100.0 * result.rate[latent])),
    )
    return Grid(
        "table2_rate",
        "Noise level found, in percent of pixels",
        ("estimated", *_percents(result)),
        rows,
        "Without a model: from pixels that differ from all of their neighbours, before anything is "
        "learned; moments and resampling use it where the noise is unknown.",
        _csv(result, [free, latent]),
    )


def _boundaries(result: Result) -> Grid:
    rows = tuple(
        (method.label, _word(method.known), name, *_spread(length))
        for i, method in enumerate(METHODS)
        for name, length in zip(DECODINGS, np.moveaxis(result.length[i], -1, 0), strict=True)
    )
    return Grid(
        "table2_boundary",
        "Boundary of the decoded masks, as a multiple of that of the true ones",
        ("learned by", "noise", "decoding", *_percents(result)),
        rows,
        "Pairs of neighbouring pixels that differ, over all test images. Below 1 is too smooth.",
        _csv(result, range(len(METHODS))),
    )


def _csv(result: Result, methods: Iterable[int]) -> tuple[tuple[str, ...], ...]:
    """Return every single number of some methods."""
    head = ("method", "noise known", "decoding", "noise", "seed")
    lines: list[tuple[str, ...]] = [
        (*head, "percent wrong", "boundary ratio", "noise level", "converged")
    ]
    for i in methods:
        for n, s, d in np.ndindex(*result.error.shape[1:]):
            numbers = (
                100.0 * result.noises[n],
                result.seeds[s],
                result.error[i, n, s, d],
                result.length[i, n, s, d],
                result.rate[i, n, s],
                int(result.converged[i, n, s]),
            )
            noise, *others = (f"{number:.9g}" for number in numbers)
            known = "yes" if METHODS[i].known else "no"
            lines.append((METHODS[i].label, known, DECODINGS[d], f"{noise} %", *others))
    return tuple(lines)


def _percents(result: Result) -> Iterable[str]:
    return (f"{100.0 * noise:g} %" for noise in result.noises)


def _spread(numbers: FloatArray) -> list[str]:
    """Return mean ± standard deviation over the last axis."""
    return [spread(of_seeds) for of_seeds in numbers]


# ------------------------------------------------------------------------------------------- words


def _what_was_done(result: Result, setting: Setting) -> str:
    paper = [i for i, method in enumerate(METHODS) if method.latent]
    fits = result.converged[paper]
    seeds = f"seed{'s' * (len(result.seeds) > 1)} {', '.join(map(str, result.seeds))}"
    return (
        f"Learned from {setting.train} noisy images alone, and counted on {setting.test} others; "
        f"{seeds}. The paper's objective is the difference of two logistic bounds (section "
        "4.4), with horizontal and vertical cuts, a modular term for each pixel and a regulariser "
        "of 0.01 on all of them, by stochastic subgradients. It runs until the second half of its "
        f"steps has changed the objective by less than {result.tol:g} of it, which "
        f"{int(fits.sum())} of {fits.size} fits reached. Where the noise is unknown it starts from "
        "a rate of 30 % and is learned beside the other parameters. Moments solve the convex "
        "supervised problem with unbiased estimates of the clean statistics, and learn the weight "
        "of the observations too; the filter looks at the observations around a pixel. Resampling "
        "proposes clean images, corrupts them again and learns from these pairs, round by round."
    )


def _against_the_paper(result: Result) -> str:
    parts = []
    for known in (True, False):
        (i,) = result.of(known, latent=True)
        paper = np.stack([result.paper(known, name) for name in DECODINGS], axis=-1)
        more = result.error[i].mean(axis=1) - paper
        parts.append(
            f"With the noise {_word(known)}, the paper's own method is at most 0.1 points above "
            f"the printed number in {int(np.sum(more <= 0.1))} of {more.size} cells (the "
            f"differences go from {more.min():+.2f} to {more.max():+.2f})."
        )
    return " ".join(parts)


def _failures(result: Result) -> list[str]:
    """Say where the paper's objective does next to nothing."""
    (i,) = result.of(known=False, latent=True)
    poor = result.error[i].mean(axis=1).min(axis=1) > 80.0 * np.array(result.noises)
    poor &= result.rate[i].mean(axis=1) < result.noises
    if not poor.any():
        return []
    where = _list(f"{100.0 * n:g} %" for n, hit in zip(result.noises, poor, strict=True) if hit)
    return [
        f"With unknown noise at {where} the paper's objective removes less than a fifth of the "
        "noise, and finds too small a rate of it: a difference of two upper bounds bounds nothing."
    ]


def _others(result: Result, compared: bool) -> str:
    words, ours = [], {}
    for known in (True, False):
        others = result.of(known, latent=False)
        ours[known] = result.error[others].mean(axis=2).min(axis=(0, 2))
        paper = np.min([result.paper(known, name) for name in DECODINGS], axis=0)
        (i,) = result.of(known, latent=True)
        objective = result.error[i].mean(axis=1).min(axis=1)
        of_paper = f"that of the paper {_list(f'{x:.1f}' for x in paper)} %, " if compared else ""
        words.append(
            f"With the noise {_word(known)} their best is "
            f"{_list(f'{x:.2f}' for x in ours[known])} %, {of_paper}and that of the "
            f"paper's objective here {_list(f'{x:.2f}' for x in objective)} %."
        )
    free = result.of(known=False, latent=False)[0]
    off = 100.0 * np.abs(result.rate[free] - np.array(result.noises)[:, None]).max()
    return (
        f"Moments and resampling need no clean image either. {' '.join(words)} The noise level "
        f"found beforehand is off by at most {off:.2f} points, and not knowing the noise changes "
        f"their best by at most {np.abs(ours[False] - ours[True]).max():.2f} points."
    )


def _oversmoothing(result: Result) -> str:
    """Answer the paper's last remark on its table."""
    paper = [i for i, method in enumerate(METHODS) if method.latent]
    length, error = result.length[paper].mean(axis=2), result.error[paper].mean(axis=2)
    cells = error[..., 0].size
    short = [int(np.sum(length[..., d] < 1.0)) for d in range(2)]
    sides = np.sign(length[..., 0] - length[..., 1])
    better = int(np.sum(error[..., 0] < error[..., 1]))
    verdicts = {
        -1: "It smooths more, not less, and corrects no oversmoothing.",
        0: "So neither of them is the smoother one.",
        1: "So it does smooth less.",
    }
    return (
        "The paper explains why MAP is the better decoding in its table: the unsupervised learner "
        "oversmooths, and MAP corrects this a bit. Is it so? Of the masks that its objective "
        f"gives, those of mean decoding have too short a boundary in {short[1]} of {cells} cells, "
        f"those of MAP in {short[0]}, and MAP has fewer wrong pixels in {better}. The boundary of "
        f"MAP is the shorter of the two in {int(np.sum(sides < 0))} cells and the longer in "
        f"{int(np.sum(sides > 0))}. {verdicts[int(np.sign(sides.sum()))]}"
    )


def _word(known: bool) -> str:
    return "known" if known else "unknown"


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _list(words: Iterable[str]) -> str:
    return "/".join(words)
