"""The report section on table 1; its sentences depend on the numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from logsuper.experiments._setting import at, percent, spread_note
from logsuper.experiments._table1_fits import FITS, FOLDS, WEAK
from logsuper.experiments.table1 import PAPER, Result
from logsuper.learning import SAMPLES
from logsuper.report import Section, Table, Words, least

_NAMES = {"map": "MAP", "mean": "mean", "svm": "SVM-Struct"}


def make_section(result: Result) -> Section:
    """Return the section of the report."""
    said = Words("logsuper.experiments", "table1", result=result, **_findings(result))
    tables = (_paper(result, said), _all(result, said), *_fits(result, said))
    return said.section("table1", tables=tables, seeds=result.seeds)


# ------------------------------------------------------------------------------------------ tables


def _paper(result: Result, said: Words) -> Table:
    """Return the paper's columns, next to its numbers if the images are the same."""
    compared = not result.setting.shipped
    kept = slice(None) if compared else slice(1, 2)
    head, means = ["noise"], np.array([result.mean(key) for key in PAPER])
    shown: list[list[Any]] = [[percent(noise)] for noise in result.plan.noises]
    data: list[list[Any]] = [[noise] for noise in result.plan.noises]
    for key, name in _NAMES.items():
        head += [f"{name}, paper", f"{name}, ours", "difference"][kept]
        columns = zip(result.paper(key), result.errors(key), result.mean(key), strict=True)
        for i, (paper, errors, mean) in enumerate(columns):
            shown[i] += [f"{paper:.1f}", errors, f"{mean - paper:+.2f}"][kept]
            data[i] += [paper, mean, mean - paper][kept]
    width = 3 if compared else 1
    places = range(len(shown))
    return said.table(
        "table1",
        head,
        shown,
        data=[head, *data],
        best=frozenset(
            (i, 1 + width // 2 + width * k)
            for i, k in zip(places, means.argmin(axis=0), strict=True)
        ),
        quoted=frozenset((i, 1 + 3 * k) for i in places for k in range(3) if compared),
    )


def _all(result: Result, said: Words) -> Table:
    """Return all columns, shown as rows since there are many."""
    data: list[tuple[Any, ...]] = [("method", "group", "noise", "seed", "error")]
    for fit in result.numbers:
        for key in FITS[fit].columns:
            for (n, s), error in np.ndenumerate(result.errors(key)):
                noise, seed = result.plan.noises[n], result.seeds[s]
                data.append((key, FITS[fit].group, noise, seed, error))
    return said.table(
        "table1_methods",
        ["method", *_noises(result)],
        [(label, *result.errors(key)) for key, label in result.columns.items()],
        data=data,
        best=least(np.array([result.mean(key) for key in result.columns])),
    )


def _fits(result: Result, said: Words) -> Iterable[Table]:
    """Yield tables of the selected regularisers and learned numbers, and of the seconds."""
    rows: list[tuple[Any, ...]] = []
    times: list[tuple[Any, ...]] = []
    data: list[tuple[Any, ...]] = [("fit", "noise", "alpha", "modular", "error")]
    for fit, errors in result.selections.items():
        title, kinds = FITS[fit].title, "alpha and w" if "w" in FITS[fit].details else "alpha"
        for name, weights in zip((kinds, "t"), result.chosen(fit).T, strict=True):
            rows.append((f"λ of {name}, {title}", *(f"{weight:g}" for weight in weights)))
        error = errors[:, :-1].min(axis=1)
        rows.append((f"error in cross-validation, {title}", *(f"{x:.2f} %" for x in error)))
        times.append((f"selection of λ, {title}", *errors[:, -1]))
        for noise, of_pairs in zip(result.plan.noises, errors, strict=True):
            pairs = zip(result.plan.paths[fit], of_pairs, strict=False)  # the last are seconds
            data += [(fit, noise, *pair, error) for pair, error in pairs]
    for fit in result.numbers:
        title = FITS[fit].title
        rows += [(f"{name}, {title}", *result.detail(fit, name)) for name in FITS[fit].details]
        times.append((title, *result.seconds(fit)))
    yield said.table("table1_selection", ["number", *_noises(result)], rows, data=data)
    head = ["fit and decoding", *_noises(result)]
    yield said.table("table1_seconds", head, times, format=".1f")


def _noises(result: Result) -> list[str]:
    return [f"{percent(noise)} noise" for noise in result.plan.noises]


# ------------------------------------------------------------------------------------------- words


def _findings(result: Result) -> dict[str, Any]:
    """Return the values for the text of the section."""
    noises, setting = result.plan.noises, result.setting
    mean = {key: result.mean(key) for key in result.columns}

    def best(columns: Iterable[str]) -> str:
        """Return the column with the least mean log-error over the noise levels."""
        return min(columns, key=lambda key: float(np.log(np.maximum(mean[key], 1e-9)).sum()))

    def columns(*groups: str) -> list[str]:
        """Return the columns of fits in these groups that were run for all seeds."""
        fits = (FITS[fit] for fit in result.numbers if not FITS[fit].once)
        return [key for fit in fits if fit.group in groups for key in fit.columns]

    def below(column: str, *others: str) -> str:
        """Return a phrase with the noise levels at which a column has a lower error than others."""
        return at(mean[column] < np.min([mean[key] for key in others], axis=0), noises)

    excess = np.array([mean[key] - result.paper(key) for key in ("map", "mean")])
    key, n = np.unravel_index(excess.argmax(), excess.shape)
    ours, base = best(columns("paper", "ours")), best(columns("baseline"))
    printed = np.min([result.paper(key) for key in PAPER], axis=0)
    above = mean["svm"] > np.maximum(mean["map"], mean["mean"])
    return {
        "at": lambda found: at(found, noises),
        "below": below,
        "mean": mean,
        "labels": result.columns,
        "compared": not setting.shipped,
        "excess": excess,
        "most": f"{('MAP', 'mean')[key]}, {percent(noises[n])}",
        "ours": ours,
        "levels": 100.0 * np.array(noises),
        "printed": printed,
        "above": above,
        "base": base,
        "others": [
            key for key in columns("baseline") if key != base and (mean[key] < mean[ours]).any()
        ],
        "spread": spread_note(result.seeds),
        "pixels": min(result.plan.pixels, setting.train * setting.masks.images[0].size),
        "samples": SAMPLES,
        "tree_folds": FOLDS,
        "weak": WEAK,
        "fits": [FITS[fit] for fit in result.numbers],
        "edges": [
            f"{FITS[fit].title} at {percent(noise)}"
            for fit in result.selections
            for noise, edge in zip(noises, result.at_the_edge(fit), strict=True)
            if edge
        ],
    }
