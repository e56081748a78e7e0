"""`logsuper segment PHOTO --scribbles S --out MASK`: cut an object out of a photograph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logsuper.cli._console import say
from logsuper.cli._inputs import SEED, TextPath, in_one_line
from logsuper.cli._progress import stages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logsuper.estimators import (
        ScribbleSegmenter,
        ScribbleSession,
        Segmentation,
        Suggestion,
    )

_FILE = TextPath(dir_okay=False, path_type=Path)
_INPUT = TextPath(exists=True, path_type=Path)

# Regions that are printed, and the colours of the picture of --suggest.
_REGIONS = 3
_REGION, _CENTER = (255, 220, 0), (230, 0, 0)

_EXAMPLES = """\b
Examples:
  logsuper segment photo.jpg --scribbles strokes.png --out mask.png
  logsuper segment photo.jpg --scribbles strokes.png --out mask.png --suggest next.png
  logsuper segment scan.tif --scribbles strokes.tif --out mask.tif --probabilities p.tif
"""


@click.command(epilog=_EXAMPLES)
@click.argument("photo", type=_INPUT)
@click.option(
    "--scribbles",
    type=_INPUT,
    required=True,
    help="Strokes on object and background, of the size of the photo.",
)
@click.option("--out", type=_FILE, required=True, help="The mask: object white, the rest black.")
@click.option(
    "--probabilities", type=_FILE, help="Also write probabilities of the object, 16 bits, 65535: 1."
)
@click.option("--suggest", type=_FILE, help="Also write a picture of where to scribble next.")
@click.option("--model", type=_FILE, help="A saved ScribbleSegmenter instead of the shipped one.")
@click.option("--seed", type=SEED, default=0, help="Random seed of the probabilities.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
def segment(
    photo: Path,
    scribbles: Path,
    out: Path,
    probabilities: Path | None,
    suggest: Path | None,
    model: Path | None,
    seed: int,
    as_json: bool,
    force: bool,
) -> None:
    """Cut an object out of a photograph, given scribbles on object and background.

    PHOTO is an image or a volume, grey or in colour. The file of scribbles has a palette or grey
    levels with 0 (unknown), 1 (object) and 2 (background); or the grey levels 0, 255 (object) and
    128 (background); or colours: red strokes on the object, blue or green ones on the background,
    all else unknown. They may be painted on a copy of the photo: pixels that did not change are no
    strokes.
    """
    targets = {"--out": out, "--probabilities": probabilities, "--suggest": suggest}
    chosen = _load(model, seed)
    image = _read(photo)
    drawn = _read(scribbles, "indices")
    labels = as_labels(drawn, str(scribbles))
    if _painted(same := _unchanged(image, drawn), image):
        labels[same] = 0  # what is red or blue in the photograph itself is no stroke
    _check_targets(targets, (photo, scribbles, model), labels.shape, force)
    with in_one_line("", TypeError):
        found = _run(chosen, image, labels)
    regions = found.suggest(_REGIONS)
    _write(targets, image, found, regions, force)
    result = _describe(targets, labels, found, regions)
    if as_json:
        click.echo(json.dumps(result))
    else:
        _print(result)


def as_labels(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Return labels 0, 1 and 2 from the pixels of a file, by the rules in the help."""
    import numpy as np

    if values.ndim == 3 and values.shape[-1] == 3 and values.dtype == np.uint8:
        red, green, blue = np.moveaxis(values.astype(np.int64), -1, 0)
        others = np.maximum(green, blue)
        marked = [red - others >= 96, others - red >= 96]
        return np.select(marked, [1, 2], 0).astype(np.uint8)
    found = set(np.unique(values).tolist())
    if found <= {0, 1, 2}:
        return values.astype(np.uint8)
    if found <= {0, 128, 255}:
        return np.select([values == 255, values == 128], [1, 2], 0).astype(np.uint8)
    odd = sorted(found - {0, 1, 2, 128, 255})[:1] or sorted(found)[-1:]
    raise click.ClickException(
        f"{name}: has the level {odd[0]}; scribbles are 0, 1 (object) and 2 (background), or 0, "
        "255 (object) and 128 (background), or red and blue strokes; for more objects, segment one "
        "against the rest for each"
    )


# ------------------------------------------------------------------------------------------ inside


def _load(model: Path | None, seed: int) -> ScribbleSegmenter:
    from logsuper.estimators import ScribbleSegmenter

    with in_one_line("--model: "):
        chosen = ScribbleSegmenter() if model is None else ScribbleSegmenter.load(model)
    return chosen.set_params(random_state=seed)  # type: ignore[no-any-return]


def _read(path: Path, palette: str = "colors") -> NDArray[Any]:
    from logsuper.io import read_image

    with in_one_line():
        return read_image(path, color=True, palette=palette)


def _unchanged(image: NDArray[Any], drawn: NDArray[Any]) -> NDArray[Any]:
    """Return where a file of coloured strokes has the very pixels of the photograph."""
    import numpy as np

    if drawn.ndim != 3 or drawn.shape != image.shape or drawn.dtype != image.dtype:
        return np.zeros(drawn.shape[:2], dtype=bool)
    return np.asarray((drawn == image).all(axis=-1))


def _painted(same: NDArray[Any], image: NDArray[Any]) -> bool:
    """Whether strokes were painted on the photograph, not on a black ground of their own."""
    if not same.any():
        return False
    lit = image.any(axis=-1)
    return bool(2 * (same & lit).sum() > lit.sum())


def _check_targets(
    targets: dict[str, Path | None],
    inputs: tuple[Path | None, ...],
    shape: tuple[int, ...],
    force: bool,
) -> None:
    """Refuse files that cannot be written, before any work."""
    import numpy as np

    from logsuper.io import check_writable

    read = {path.resolve() for path in inputs if path is not None}
    seen: dict[Path, str] = {}
    kinds = {"--out": np.uint8, "--probabilities": np.uint16, "--suggest": np.uint8}
    for option, path in targets.items():
        if path is None:
            continue
        color = option == "--suggest"
        if color and len(shape) != 2:
            raise click.UsageError("--suggest draws a picture; leave it out for volumes")
        with in_one_line(f"{option}: "):
            size = (*shape, 3) if color else shape
            check_writable(path, size, np.dtype(kinds[option]), color)
        if path.resolve() in read:
            raise click.UsageError(f"{option}: {path} is an input of this command")
        if path.resolve() in seen:
            raise click.UsageError(f"{option} and {seen[path.resolve()]} are the same file")
        if path.exists() and not force:
            raise click.ClickException(f"{option}: {path} is there already; give --force")
        seen[path.resolve()] = option


def _run(chosen: ScribbleSegmenter, image: NDArray[Any], labels: NDArray[Any]) -> Segmentation:
    axis = -1 if image.ndim == labels.ndim + 1 else None
    session: ScribbleSession = chosen.set_params(channel_axis=axis).start(image)
    session.segment(labels)
    with stages() as stage:
        tell = stage("probabilities", chosen.n_samples)
        return session.probabilities(callback=lambda done, total: tell(done))


def _write(
    targets: dict[str, Path | None],
    image: NDArray[Any],
    found: Segmentation,
    regions: list[Suggestion],
    force: bool,
) -> None:
    import numpy as np

    from logsuper.io import write_image

    assert found.probability is not None
    pictures: dict[str, NDArray[Any]] = {
        "--out": np.where(found.mask, 255, 0).astype(np.uint8),
        "--probabilities": np.round(65535.0 * found.probability).astype(np.uint16),
    }
    with in_one_line():
        for option, path in targets.items():
            if path is not None and option in pictures:
                write_image(path, pictures[option], force=force)
        if (path := targets["--suggest"]) is not None:
            write_image(path, _draw(image, regions), color=True, force=force)


def _draw(image: NDArray[Any], regions: list[Suggestion]) -> NDArray[Any]:
    """Return the photograph in pale grey, doubtful regions in yellow, the pen's place in red."""
    import numpy as np

    grey = image.astype(np.float64)
    grey = grey.mean(axis=-1) if grey.ndim == 3 else grey
    low, spread = grey.min(), np.ptp(grey)
    pale = 90.0 + 120.0 * (grey - low) / (spread if spread > 0 else 1.0)
    picture = np.repeat(np.round(pale)[..., None], 3, axis=-1).astype(np.uint8)
    arm = max(2, round(0.02 * max(grey.shape)))
    for region in regions:
        picture[region.mask] = _REGION
    for region in regions:
        row, column = region.center
        picture[max(0, row - arm) : row + arm + 1, max(0, column - 1) : column + 2] = _CENTER
        picture[max(0, row - 1) : row + 2, max(0, column - arm) : column + arm + 1] = _CENTER
    return picture


def _describe(
    targets: dict[str, Path | None],
    labels: NDArray[Any],
    found: Segmentation,
    regions: list[Suggestion],
) -> dict[str, Any]:
    import numpy as np

    assert found.probability is not None
    wrong = np.where(found.mask, 1.0 - found.probability, found.probability)
    return {
        "files": {option[2:]: str(path) for option, path in targets.items() if path is not None},
        "scribbles": {
            "object": int(np.count_nonzero(labels == 1)),
            "background": int(np.count_nonzero(labels == 2)),
        },
        "object": float(found.mask.mean()),
        "expected_wrong": float(wrong.mean()),
        "suggestions": [
            {
                "center": list(region.center),
                "pixels": int(np.count_nonzero(region.mask)),
                "entropy": region.entropy,
            }
            for region in regions
        ],
        "seconds": found.seconds,
    }


def _print(result: dict[str, Any]) -> None:
    strokes = result["scribbles"]
    lines = [
        f"Strokes: {strokes['object']:,} pixels on the object, {strokes['background']:,} on the "
        "background.",
        f"Object: {100 * result['object']:.1f} % of the pixels; expected wrong: "
        f"{100 * result['expected_wrong']:.1f} % of all.",
    ]
    for region in result["suggestions"][:1]:
        place = ", ".join(map(str, region["center"]))
        lines.append(
            f"Scribble next near ({place}) (row, column): {region['pixels']} pixels around it are "
            "in doubt."
        )
    if not result["suggestions"]:
        lines.append("No region is in doubt.")
    times = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in result["seconds"].items())
    lines.append(f"Wrote {', '.join(result['files'].values())}. Time: {times}.")
    for line in lines:
        say(line)
