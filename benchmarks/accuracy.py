"""Accuracy of the bounds, marginals and samples: `python -m benchmarks.accuracy --data DIR`.

Two kinds of models: the UAI 2014 segmentation models, with their published answers, and posteriors
of noisy silhouettes (the Weizmann horses of `--data`, else those that ship with the package).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import logsuper as ls
from benchmarks.images import load_silhouettes
from logsuper.report import Table

Row = list[str]
ALPHA = (1.05, 2.2)
"""Weights of the horizontal and the vertical cut, learned from the horses at 10 % noise."""

BOUNDS: dict[str, dict[str, Any]] = {
    "lfield": {},
    "logistic": {"seed": 0},
    "power": {"seed": 0},
    "trw": {},
    "superdifferential": {},
    "mean_field": {},
    "bethe": {},
}
MARGINALS: dict[str, tuple[str, dict[str, Any]]] = {
    "strips": ("strips", {}),
    "bethe": ("bethe", {}),
    "mean field": ("mean_field", {}),
    "TRW": ("trw", {}),
    "logistic, ratio form (10 samples)": (
        "logistic",
        {"form": "ratio", "n_samples": 10, "seed": 0},
    ),
    "logistic, plain (100 samples)": ("logistic", {"n_samples": 100, "seed": 0}),
    "power (200 samples)": ("power", {"seed": 0}),
    "L-field": ("lfield", {}),
    "superdifferential": ("superdifferential", {}),
    "exact samples (100)": ("sampling", {"n_samples": 100, "seed": 0}),
    "Swendsen-Wang samples (100)": (
        "sampling",
        {"n_samples": 100, "seed": 0, "sampler": "swendsen_wang"},
    ),
}


def timed(work: Callable[[], Any], repeat: int = 1) -> tuple[Any, float]:
    """Return the result and the minimum wall-clock seconds of a few runs."""
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return result, best


def posterior(image: np.ndarray, noise: float, seed: int) -> ls.LogSupermodular:
    """Return the posterior of a silhouette observed with flipped pixels."""
    fh, fv = ls.grid_cuts(image.shape)
    prior = ls.LogSupermodular(ALPHA[0] * fh + ALPHA[1] * fv)
    channel = ls.Flips(noise)
    return prior.observe(channel, channel.sample(image, seed=seed))


# ---------------------------------------------------------------------------------- UAI 2014 models


def published(path: Path) -> tuple[float, np.ndarray]:
    """Return the published log10 Z and the marginals P(x = 1)."""
    log10 = float(Path(f"{path}.PR").read_text().split()[1])
    numbers = Path(f"{path}.MAR").read_text().split()[1:]
    count = int(numbers[0])
    values = np.array(numbers[1:], dtype=float).reshape(count, 3)
    return log10, values[:, 2]


def uai_tables(folder: Path) -> Iterator[tuple[str, Row, list[Row]]]:
    """Yield a table of log Z and one of marginals, with one row per method, one column per file."""
    paths = sorted(folder.glob("Segmentation_*.uai"))
    models = [ls.read_uai(path) for path in paths]
    answers = [published(path) for path in paths]
    names = [path.stem for path in paths]

    rows: list[Row] = [["published"] + [f"{log10:.6f}" for log10, _ in answers] + [""]]
    exact = [timed(lambda m=m: m.log_partition("exact"), 3) for m in models]
    seconds = [s for _, s in exact]
    values = [f"{bound.value / np.log(10):.6f}" for bound, _ in exact]
    rows.append([f"exact ({exact[0][0].method})", *values, f"{np.mean(seconds):.3f}"])
    for method, options in BOUNDS.items():
        found = [timed(lambda m=m, o=options, k=method: m.log_partition(k, **o)) for m in models]
        gaps = [
            f"{bound.value - truth.value:+.4f}" + (f" ± {bound.stderr:.3f}" if bound.stderr else "")
            for (bound, _), (truth, _) in zip(found, exact, strict=True)
        ]
        rows.append(
            [f"{method} ({found[0][0].target})", *gaps, f"{np.mean([s for _, s in found]):.3f}"]
        )
    title = "log10 Z, published and exact; then the error of each bound, in nats"
    yield title, ["", *names, "seconds"], rows

    rows = []
    found = [timed(lambda m=m: m.marginals("exact")) for m in models]
    errors = [
        f"{np.abs(np.asarray(mu) - truth).max():.1e} (largest)"
        for (mu, _), (_, truth) in zip(found, answers, strict=True)
    ]
    rows.append(
        ["exact, from the published ones", *errors, f"{np.mean([s for _, s in found]):.3f}"]
    )
    truths = [np.asarray(mu) for mu, _ in found]
    for name, (method, options) in MARGINALS.items():
        if method == "strips":
            continue
        rows.append([name, *marginal_errors(models, truths, method, options)])
    yield "Mean absolute error of the marginals", ["", *names, "seconds"], rows


def marginal_errors(
    models: list[ls.LogSupermodular], truths: list[np.ndarray], method: str, options: dict[str, Any]
) -> Row:
    """Return the error on each model and the mean seconds, or the reason for missing ones."""
    errors, seconds = [], []
    for m, truth in zip(models, truths, strict=True):
        try:
            mu, spent = timed(lambda m=m: m.marginals(method, **options))
        except ls.NotCoalesced:
            errors.append("did not coalesce")
            continue
        errors.append(f"{np.abs(np.asarray(mu) - truth).mean():.5f}")
        seconds.append(spent)
    return [*errors, f"{np.mean(seconds):.3f}" if seconds else ""]


# --------------------------------------------------------------------------- posteriors of pictures


def strip_table(images: np.ndarray, noises: list[float]) -> tuple[str, Row, list[Row]]:
    """Return the widths that strips certify, and the time of exact samples."""
    rows = []
    for noise in noises:
        models = [posterior(image, noise, seed) for seed, image in enumerate(images)]
        widths, bound_seconds, share, marginal_seconds, sample_seconds, failed = (
            [],
            [],
            [],
            [],
            [],
            0,
        )
        for m in models:
            bound, seconds = timed(lambda m=m: m.log_partition("strips"), 3)
            widths.append(bound.interval[1] - bound.interval[0])
            bound_seconds.append(seconds)
            mu, seconds = timed(lambda m=m: m.marginals("strips"), 3)
            share.append(np.mean(mu.upper - mu.lower <= 1e-2))
            marginal_seconds.append(seconds)
            try:
                _, seconds = timed(lambda m=m: m.sample(5, seed=0))
                sample_seconds.append(seconds / 5)
            except ls.NotCoalesced:
                failed += 1
        rows.append(
            [
                f"{100 * noise:g} %",
                f"{np.mean(widths):.2g} ({np.max(widths):.2g})",
                f"{np.mean(bound_seconds):.3f} ({np.max(bound_seconds):.3f})",
                f"{100 * np.mean(share):.2f} % ({100 * np.min(share):.2f} %)",
                f"{np.mean(marginal_seconds):.3f}",
                f"{np.mean(sample_seconds):.4f} ({np.max(sample_seconds):.4f})"
                if sample_seconds
                else "",
                f"{failed} of {len(models)}",
            ]
        )
    title = f"Certified on {len(images)} posteriors, mean (worst); one thread"
    head = [
        "noise",
        "width of the bracket on log Z, nats",
        "seconds",
        "pixels certified to 0.01",
        "seconds",
        "seconds per exact sample",
        "no sample within the limit",
    ]
    return title, head, rows


def picture_tables(images: np.ndarray, noises: list[float]) -> tuple[str, Row, list[Row]]:
    """Return the error of each kind of marginals, with one column per noise level."""
    rows: dict[str, Row] = {name: [name] for name in MARGINALS}
    reference = ["half the width of the reference bracket"]
    for noise in noises:
        models = [posterior(image, noise, seed) for seed, image in enumerate(images)]
        wide = [m.marginals("strips", window=REFERENCE_WINDOW) for m in models]
        truths = [mu.values for mu in wide]
        reference += [f"{np.mean([(mu.upper - mu.lower).mean() / 2 for mu in wide]):.1e}", ""]
        for name, (method, options) in MARGINALS.items():
            *errors, seconds = marginal_errors(models, truths, method, options)
            known = [float(error) for error in errors if error[0].isdigit()]
            text = f"{np.mean(known):.5f}" if known else ""
            if len(known) < len(errors):
                text += f" ({len(errors) - len(known)} did not coalesce)"
            rows[name] += [text, seconds]
    title = f"Mean absolute error of the marginals on {len(images)} posteriors"
    head = [""] + [part for noise in noises for part in (f"{100 * noise:g} % noise", "seconds")]
    return title, head, [*rows.values(), reference]


REFERENCE_WINDOW = 14


def unobserved_third(image: np.ndarray) -> str:
    """Return the sampler's message if a contiguous third of the pixels is not observed."""
    fh, fv = ls.grid_cuts(image.shape)
    channel = ls.Flips(0.1)
    observed = channel.sample(image, seed=0)
    observed[:, image.shape[1] // 3 : 2 * image.shape[1] // 3] = np.nan
    m = ls.LogSupermodular(ALPHA[0] * fh + ALPHA[1] * fv).observe(channel, observed)
    try:
        m.sample(1, seed=0)
    except ls.NotCoalesced as error:
        return str(error)
    return "coalesced"


# ----------------------------------------------------------------------------------------- the page


def main(arguments: list[str] | None = None) -> int:
    """Print the tables, and write them if requested."""
    parse = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parse.add_argument("--data", type=Path, help="folder with uai2014/ and weizmann_horse_db/")
    parse.add_argument("--images", type=int, default=20, help="posteriors a noise level")
    parse.add_argument("--markdown", type=Path, metavar="OUT", help="write the tables")
    options = parse.parse_args(arguments)
    pages = []

    def show(title: str, head: Row, rows: list[Row]) -> None:
        pages.append(f"## {title}\n\n{Table(title, head, rows).markdown()}\n")
        print(pages[-1], flush=True)

    if options.data and (options.data / "uai2014").is_dir():
        for table in uai_tables(options.data / "uai2014"):
            show(*table)
    images = load_silhouettes(options.data, options.images)
    show(*strip_table(images, [0.05, 0.1, 0.2]))
    show(*picture_tables(images[: max(1, options.images // 4)], [0.05, 0.1, 0.2]))
    answer = unobserved_third(images[0])
    text = f"A contiguous third of the pixels unobserved, exact sampling: {answer}\n"
    print(text)
    if options.markdown:
        data = " --data DIR" if options.data else ""
        command = f"python -m benchmarks.accuracy{data} --images {options.images}"
        head = f"# Accuracy\n\nPrinted by `{command}`.\n"
        options.markdown.write_text("\n".join([head, *pages, text]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
