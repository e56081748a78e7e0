"""`logsuper demo`: clean noisy silhouettes with one exact cut each, and show what came out."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["demo"]

# Set by hand: fewer changes along columns than along rows keeps the legs.
_HORIZONTAL, _VERTICAL = 1.05, 2.2


@dataclass(frozen=True)
class _Outcome:
    """Shares of wrong pixels, one an image, and how long the cuts took."""

    noisy: list[float]
    cleaned: list[float]
    seconds: float


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder for demo.png; made if it is not there.",
)
@click.option(
    "--count", type=click.IntRange(1, 100), default=3, show_default=True, help="How many images."
)
@click.option(
    "--size",
    type=click.IntRange(16, 1024),
    default=50,
    show_default=True,
    help="Height and width in pixels.",
)
@click.option(
    "--noise",
    type=click.FloatRange(0.0, 0.5, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    help="Share of pixels that are flipped.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def demo(out: Path, count: int, size: int, noise: float, seed: int, as_json: bool) -> None:
    """Clean noisy silhouettes and save before and after.

    Draws silhouettes, flips some of their pixels, cleans each with one cut, prints the share of
    wrong pixels, and saves original, noisy and cleaned images side by side.

    The cleaned image is the exact most probable one, argmax_y theta'y - f(y), given the noisy image
    and the share of flipped pixels, under a prior f that charges 1.05 for each change between
    neighbours in a row and 2.2 in a column.
    """
    originals, noisy, cleaned, outcome = _clean(count, size, noise, seed)
    target = out / "demo.png"
    try:
        _save(target, originals, noisy, cleaned)
    except OSError as error:
        raise click.ClickException(f"--out: cannot write {target}: {error.strerror}") from error
    if as_json:
        click.echo(json.dumps({"image": str(target), **asdict(outcome)}))
    else:
        _print(outcome, target, count, size)


def _clean(
    count: int, size: int, noise: float, seed: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8], _Outcome]:
    import numpy as np

    from logsuper.datasets import make_silhouettes
    from logsuper.functions import grid_cuts
    from logsuper.solvers import maximize

    silhouettes, flips = np.random.default_rng(seed).spawn(2)
    originals = make_silhouettes(count, (size, size), silhouettes)
    noisy = originals ^ (flips.random(originals.shape) < noise).astype(np.uint8)

    horizontal, vertical = grid_cuts((size, size))
    f = _HORIZONTAL * horizontal + _VERTICAL * vertical
    theta = np.log(noise / (1.0 - noise)) * (1.0 - 2.0 * noisy.reshape(count, -1))
    start = time.perf_counter()
    y, _ = maximize(f, theta)
    seconds = time.perf_counter() - start
    cleaned = y.reshape(originals.shape)

    def wrong(images: NDArray[np.uint8]) -> list[float]:
        shares: list[float] = (images != originals).mean(axis=(1, 2)).tolist()
        return shares

    return originals, noisy, cleaned, _Outcome(wrong(noisy), wrong(cleaned), seconds)


def _save(target: Path, *columns: NDArray[np.uint8]) -> None:
    """Write the stacks of images as columns of one enlarged sheet, ink on paper."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    from logsuper._files import atomic_write

    count, size, _ = columns[0].shape
    zoom = max(1, 240 // size)
    panel, gap, head = size * zoom, 12, 34
    width = gap + len(columns) * (panel + gap)
    height = head + count * (panel + gap)
    sheet = Image.new("RGB", (width, height), "#dfe3e8")
    draw = ImageDraw.Draw(sheet)
    ink, paper = np.array([34, 40, 49], np.uint8), np.array([255, 255, 255], np.uint8)
    titles = ("original", "noisy", "cleaned")
    for c, (title, images) in enumerate(zip(titles, columns, strict=True)):
        left = gap + c * (panel + gap)
        draw.text(
            (left + panel / 2, head / 2), title, "#222831", ImageFont.load_default(18), anchor="mm"
        )
        for r, image in enumerate(images):
            colours = np.where(image[..., None] == 1, ink, paper)
            tile = Image.fromarray(colours.repeat(zoom, axis=0).repeat(zoom, axis=1))
            sheet.paste(tile, (left, head + r * (panel + gap)))
    with atomic_write(target) as file:
        sheet.save(file, format="PNG", optimize=True)


def _print(outcome: _Outcome, target: Path, count: int, size: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Wrong pixels")
    table.add_column("image", justify="right")
    table.add_column("noisy", justify="right")
    table.add_column("cleaned", justify="right")
    for i, (before, after) in enumerate(zip(outcome.noisy, outcome.cleaned, strict=True), start=1):
        table.add_row(str(i), f"{before:.1%}", f"{after:.1%}", end_section=i == count)
    table.add_row(
        "mean", f"{sum(outcome.noisy) / count:.1%}", f"{sum(outcome.cleaned) / count:.1%}"
    )
    console = Console()
    console.print(table)
    console.print(f"{count} exact cuts of {size} x {size} pixels in {1e3 * outcome.seconds:.1f} ms")
    console.print(f"Pictures: {target}", soft_wrap=True)
