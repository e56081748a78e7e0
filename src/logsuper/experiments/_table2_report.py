"""The report section on table 2; its sentences depend on the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from logsuper.experiments._setting import Setting, percent, spread_note
from logsuper.experiments.table2 import DECODINGS, METHODS, Result
from logsuper.learning import SAMPLES
from logsuper.report import Section, Table, Words, least, show

_WORDS = {True: "known", False: "unknown"}


def make_section(result: Result, setting: Setting) -> Section:
    """Return the section: errors with known and unknown noise, estimated rates, boundaries."""
    compared = not setting.shipped
    said = Words(
        "logsuper.experiments", "table2", result=result, setting=setting, compared=compared,
        samples=SAMPLES, spread=spread_note(result.seeds).capitalize(), **_findings(result),
    )  # fmt: skip
    errors = (_errors(result, known, compared, said) for known in (True, False))
    tables = (*errors, *_others(result, said))
    return said.section("table2", tables=tables, seeds=result.seeds)


# ------------------------------------------------------------------------------------------ tables


def _errors(result: Result, known: bool, compared: bool, said: Words) -> Table:
    """Return the errors, next to those of the paper if the images are the same."""
    rows: list[tuple[Any, ...]] = []
    if compared:
        rows += [("paper", x, *(f"{y:.1f}" for y in result.paper(known, x))) for x in DECODINGS]
    above = len(rows)
    ours = [i for i, method in enumerate(METHODS) if method.known == known]
    for i in ours:
        for d, name in enumerate(DECODINGS):
            cells: Iterable[Any] = result.error[i, ..., d]
            if compared:
                change = result.error[i, ..., d].mean(axis=1) - result.paper(known, name)
                pairs = zip(cells, change, strict=True)
                cells = [f"{show(errors)} ({by:+z.2f})" for errors, by in pairs]
            rows.append((METHODS[i].label, name, *cells))
    means = result.error[ours].mean(axis=2)  # (methods, noises, decodings)
    return said.table(
        f"table2_{_WORDS[known]}",
        ["learned by", "decoding", *map(percent, result.noises)],
        rows,
        data=list(_full(result, ours)),
        best=least(np.concatenate(means.transpose(0, 2, 1)), above, 2),
        quoted=frozenset(np.ndindex(above, len(result.noises) + 2)),
    )


def _others(result: Result, said: Words) -> Iterator[Table]:
    """Yield the tables of the estimated rates and of the boundaries."""
    noises = [percent(noise) for noise in result.noises]
    (latent,), free = result.of(known=False, latent=True), result.of(False, False)[0]
    rates = {"without a model": free, "paper's objective": latent}
    yield said.table(
        "table2_rate",
        ["estimated", *noises],
        [(label, *(100.0 * result.rate[i])) for label, i in rates.items()],
        data=list(_full(result, [free, latent])),
    )
    yield said.table(
        "table2_boundary",
        ["learned by", "noise", "decoding", *noises],
        [
            (method.label, _WORDS[method.known], name, *result.length[i, ..., d])
            for i, method in enumerate(METHODS)
            for d, name in enumerate(DECODINGS)
        ],
        data=list(_full(result, range(len(METHODS)))),
    )


def _full(result: Result, methods: Iterable[int]) -> Iterator[tuple[Any, ...]]:
    """Yield all numbers of some methods, the head first."""
    yield (
        "method", "noise known", "decoding", "noise", "seed",
        "percent wrong", "boundary ratio", "noise level", "converged",
    )  # fmt: skip
    for i in methods:
        method = (METHODS[i].label, "yes" if METHODS[i].known else "no")
        for n, s, d in np.ndindex(*result.error.shape[1:]):
            case = (DECODINGS[d], percent(result.noises[n]), result.seeds[s])
            numbers = (result.error[i, n, s, d], result.length[i, n, s, d], result.rate[i, n, s])
            yield *method, *case, *numbers, int(result.converged[i, n, s])


# ------------------------------------------------------------------------------------------- words


def _findings(result: Result) -> dict[str, Any]:
    """Return the values for the text of the section."""
    mean = result.error.mean(axis=2)  # (methods, noises, decodings)
    noises, sides = np.array(result.noises), []
    for known in (True, False):
        (latent,), others = result.of(known, latent=True), result.of(known, latent=False)
        paper = np.stack([result.paper(known, name) for name in DECODINGS], axis=-1)
        side = {
            "word": _WORDS[known],
            "more": mean[latent] - paper,
            "paper": paper.min(axis=1),
            "latent": mean[latent].min(axis=1),
            "ours": mean[others].min(axis=(0, 2)),
        }
        sides.append(side)
    free = result.of(known=False, latent=False)[0]
    poor = (sides[1]["latent"] > 80.0 * noises) & (result.rate[latent].mean(axis=1) < noises)
    papers = [i for i, method in enumerate(METHODS) if method.latent]
    length, error = result.length[papers].mean(axis=2), mean[papers]
    return {
        "sides": sides,
        "fits": result.converged[papers],
        "levels": 100.0 * noises,
        "poor": poor,
        "off": 100.0 * np.abs(result.rate[free] - noises[:, None]).max(),
        "change": np.abs(sides[1]["ours"] - sides[0]["ours"]).max(),
        "cells": error[..., 0].size,
        "short": (length < 1.0).sum(axis=(0, 1)),
        "better": (error[..., 0] < error[..., 1]).sum(),
        "signs": np.sign(length[..., 0] - length[..., 1]),
    }
