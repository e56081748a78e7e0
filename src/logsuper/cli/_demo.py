"""`logsuper demo`: learn from noisy silhouettes alone, clean others, and show what came out."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logsuper.cli._console import console
from logsuper.cli._inputs import SEED, FiniteRange, TextPath, check_folder, refusal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from logsuper.estimators import MaskDenoiser
    from logsuper.experiments import Grid, Picture

__all__ = ["demo"]

_TRAIN = 60
_SHOWN = 4
_SAMPLES = 2
_FILES = {"report": "report.html", "image": "demo.png"}


@dataclass(frozen=True)
class _Images:
    """The images that were cleaned, and what was found about them."""

    original: NDArray[np.uint8]
    noisy: NDArray[np.float64]
    cleaned: NDArray[np.uint8]
    probability: NDArray[np.float64]
    samples: NDArray[np.uint8] | None  # none if exact sampling gave up


@click.command()
@click.option(
    "--out",
    type=TextPath(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder for report.html and demo.png; made if it is not there.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 100),
    default=20,
    show_default=True,
    help="How many images to clean.",
)
@click.option(
    "--size",
    type=click.IntRange(16, 200),
    default=50,
    show_default=True,
    help="Height and width in pixels.",
)
@click.option(
    "--noise",
    type=FiniteRange(0.0, 0.4, min_open=True),
    default=0.1,
    show_default=True,
    help="Share of pixels that are flipped.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Random seed.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def demo(out: Path, count: int, size: int, noise: float, seed: int, as_json: bool) -> None:
    """Learn from noisy silhouettes alone, and clean others.

    Draws silhouettes and flips some of their pixels. A model is learned from sixty of the noisy
    images: it sees no clean one, and is not told how many pixels were flipped. It then cleans
    others, says how sure it is of each pixel, and draws what the clean image may have been.
    """
    check_folder(out, _FILES.values())
    with console(stderr=True).status(f"Learning from {_TRAIN} noisy images ..."):
        denoiser, images, seconds = _run(count, size, noise, seed)
    figures = _figures(denoiser, images, noise, seconds)
    command = f"logsuper demo --count {count} --size {size} --noise {noise:g} --seed {seed}"
    try:
        files = _save(out, command, denoiser, images, figures)
    except OSError as error:
        raise refusal(out, error) from error
    if as_json:
        click.echo(json.dumps({**files, **figures}))
    else:
        _print(figures, files)


def _run(
    count: int, size: int, noise: float, seed: int
) -> tuple[MaskDenoiser, _Images, tuple[float, float]]:
    """Return what was learned, the images, and the seconds of learning and of cleaning."""
    from logsuper import NotCoalesced
    from logsuper._base import ConvergenceWarning
    from logsuper.channels import Flips
    from logsuper.datasets import corrupt, make_silhouettes
    from logsuper.estimators import MaskDenoiser

    original = make_silhouettes(_TRAIN + count, (size, size), seed)
    noisy = corrupt(original, Flips(noise), seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
        denoiser = MaskDenoiser(random_state=seed, n_jobs=-1).fit(noisy[:_TRAIN])
    learned = time.perf_counter()
    others = noisy[_TRAIN:]
    probability = denoiser.predict_proba(others)
    cleaned = (probability > 0.5).astype("uint8")  # what `predict` does
    seconds = learned - start, time.perf_counter() - learned
    try:
        samples = denoiser.sample_posterior(others[:_SHOWN], _SAMPLES, random_state=seed)
    except NotCoalesced:  # strong weights, learned from hardly anything but noise
        samples = None
    return denoiser, _Images(original[_TRAIN:], others, cleaned, probability, samples), seconds


def _figures(
    denoiser: MaskDenoiser, images: _Images, noise: float, seconds: tuple[float, float]
) -> dict[str, Any]:
    """Return all numbers, as JSON can hold them; shares of wrong pixels are one an image."""
    import numpy as np

    def shares(wrong: NDArray[Any]) -> list[float]:
        return [float(share) for share in wrong.mean(axis=(1, 2))]

    p = images.probability
    return {
        "noise": noise,
        "noise_estimated": float(denoiser.noise_),
        "noisy": shares(images.noisy != images.original),
        "cleaned": shares(images.cleaned != images.original),
        "expected": shares(np.minimum(p, 1.0 - p)),
        "converged": denoiser.converged_,
        "learning_seconds": seconds[0],
        "cleaning_seconds": seconds[1],
    }


def _percent(share: float) -> str:
    return f"{100.0 * share:.2f} %"


def _summary(figures: dict[str, Any]) -> Grid:
    """Return what a reader wants to know first."""
    from logsuper.experiments import Grid
    from logsuper.experiments.report import duration

    def mean(name: str) -> str:
        return _percent(sum(figures[name]) / len(figures[name]))

    count = len(figures["noisy"])
    converged = "" if figures["converged"] else ", not to convergence"
    rows = (
        ("learned from", f"{_TRAIN} noisy images, no clean one{converged}"),
        ("cleaned", f"{count} other image{'s' * (count > 1)}"),
        ("flipped pixels, in truth", _percent(figures["noise"])),
        ("flipped pixels, as estimated", _percent(figures["noise_estimated"])),
        ("wrong pixels, before", mean("noisy")),
        ("wrong pixels, after", mean("cleaned")),
        ("wrong pixels, as the model expects", mean("expected")),
        ("time to learn", duration(figures["learning_seconds"])),
        ("time to clean", duration(figures["cleaning_seconds"])),
    )
    return Grid("demo", "Masks cleaned without clean examples", ("what", "result"), rows)


def _each(figures: dict[str, Any]) -> Grid:
    """Return the errors image by image."""
    from logsuper.experiments import Grid

    names = ("noisy", "cleaned", "expected")
    rows = tuple(
        (str(i), *map(_percent, shares))
        for i, shares in enumerate(zip(*(figures[name] for name in names), strict=True), start=1)
    )
    head = ("image", "noisy", "cleaned", "cleaned, as expected")
    return Grid("images", "Wrong pixels in each image", head, rows)


def _pictures(denoiser: MaskDenoiser, images: _Images) -> list[Picture]:
    """Return the sheet of the first images, what the model thinks of them, and the model."""
    from logsuper.experiments import Picture, sheet

    first = range(min(_SHOWN, len(images.original)))
    before_after = [
        sheet.Row(
            [
                sheet.grey(images.original[i], "original"),
                sheet.grey(images.noisy[i], "noisy"),
                sheet.grey(images.cleaned[i], "cleaned"),
                sheet.grey(images.probability[i], "probability"),
            ]
        )
        for i in first
    ]
    doubts = [
        sheet.Row(
            [
                sheet.judged(images.cleaned[i], images.original[i], "cleaned"),
                sheet.doubt(images.probability[i], "uncertainty"),
            ]
            + (
                []
                if images.samples is None
                else [
                    sheet.judged(images.samples[i, 0], images.original[i], "exact sample"),
                    sheet.judged(images.samples[i, 1], images.original[i], "another"),
                ]
            )
        )
        for i in first
    ]
    learned = [
        sheet.Row(
            [
                sheet.signed(denoiser.filter_, "filter"),
                sheet.signed(denoiser.modular_, "modular term"),
            ]
        )
    ]
    horizontal, vertical = denoiser.alpha_
    sampled = (
        "and two exact samples of what the clean image may have been."
        if images.samples is not None
        else "exact samples would have taken too long under weights as strong as these."
    )
    return [
        Picture(
            "demo",
            sheet.draw(before_after),
            "Original, which the model never sees; noisy; cleaned; and how probable it is for each "
            "pixel to be one.",
        ),
        Picture(
            "doubts",
            sheet.draw(doubts),
            "Cleaned again, with pixels in red that are too much and in blue that are too few; the "
            f"entropy of each pixel (white 0, brown one bit), which tells where to expect errors; "
            f"{sampled}",
        ),
        Picture(
            "learned",
            sheet.draw(learned),
            "What was learned: a filter of what was observed around a pixel, a modular term, the "
            f"weights {horizontal:.2f} and {vertical:.2f} of changes along rows and columns, and "
            f"the weight {denoiser.scale_:.2f} of the observation itself.",
        ),
    ]


def _save(
    out: Path, command: str, denoiser: MaskDenoiser, images: _Images, figures: dict[str, Any]
) -> dict[str, str]:
    """Write the report and the picture; return their paths."""
    from logsuper._base import atomic_write
    from logsuper.experiments import Section, html, report

    pictures = _pictures(denoiser, images)
    lead = (
        "Silhouettes were drawn and some of their pixels flipped. A model was learned from noisy "
        "images alone: it saw no clean one, and was not told how many pixels were flipped. Then it "
        "cleaned others."
    )
    text = (
        "The model is a conditional random field with submodular couplings. It proposes clean "
        "images for the noisy ones, corrupts them again, and learns from these pairs as from "
        "labels. Every step is a minimum cut, computed exactly.",
    )
    sections = (
        Section("result", "What came out", text, (_summary(figures),), tuple(pictures)),
        Section("images", "Image by image", (), (_each(figures),)),
    )
    facts = (("command", command), ("made with", report.versions()))
    page = report.Report("Masks, cleaned without clean examples", lead, facts, sections)
    files = {name: out / file for name, file in _FILES.items()}
    for file, content in zip(
        files.values(), (html.page(page).encode(), pictures[0].png), strict=True
    ):
        with atomic_write(file) as target:
            target.write(content)
    return {name: str(file) for name, file in files.items()}


def _print(figures: dict[str, Any], files: dict[str, str]) -> None:
    """Print the summary, and where to look."""
    from rich.table import Table

    grid = _summary(figures)
    table = Table(title=grid.title, show_header=False)
    for row in grid.rows:
        table.add_row(*row)
    screen = console()
    screen.print(table)
    screen.print(f"Report: {files['report']}", soft_wrap=True)
    screen.print(f"Picture: {files['image']}", soft_wrap=True)
