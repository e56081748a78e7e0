"""What `logsuper segment` writes and says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logsuper.cli._console import say
from logsuper.cli._inputs import in_one_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logsuper.estimators import Segmentation, Suggestion

# The colours of the picture of --suggest.
_REGION, _CENTER = (255, 220, 0), (230, 0, 0)


def check_targets(
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
    for option, path in targets.items():
        if path is None:
            continue
        color = option == "--suggest"
        if color and len(shape) != 2:
            raise click.UsageError("--suggest draws a picture; leave it out for volumes")
        with in_one_line(f"{option}: "):
            size = (*shape, 3) if color else shape
            kind = np.uint8 if option in ("--out", "--suggest") else np.uint16
            check_writable(path, size, np.dtype(kind), color)
        if path.resolve() in read:
            raise click.UsageError(f"{option}: {path} is an input of this command")
        if path.resolve() in seen:
            raise click.UsageError(f"{option} and {seen[path.resolve()]} are the same file")
        if path.exists() and not force:
            raise click.ClickException(f"{option}: {path} is there already; give --force")
        seen[path.resolve()] = option


def write_mask(out: Path, found: Segmentation, force: bool) -> None:
    """Write the mask, before probabilities are there."""
    import numpy as np

    from logsuper.io import write_image

    with in_one_line("--out: "):
        write_image(out, np.where(found.mask, 255, 0).astype(np.uint8), force=force)


def write_rest(
    targets: dict[str, Path | None],
    image: NDArray[Any],
    found: Segmentation,
    regions: list[Suggestion],
    force: bool,
) -> None:
    """Write probabilities, their bounds, and where to scribble next."""
    import numpy as np

    from logsuper.io import write_image

    # bounds are rounded outwards
    shares: dict[str, tuple[NDArray[Any] | None, Any]] = {
        "--probabilities": (found.probability, np.round),
        "--certify (lower)": (found.lower, np.floor),
        "--certify (upper)": (found.upper, np.ceil),
    }
    with in_one_line():
        for option, (values, rounded) in shares.items():
            path = targets.get(option)
            if path is not None and values is not None:
                pixels = rounded(65535.0 * values).astype(np.uint16)
                write_image(path, pixels, force=force)
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


def describe(
    targets: dict[str, Path | None],
    labels: NDArray[Any],
    found: Segmentation,
    regions: list[Suggestion],
) -> dict[str, Any]:
    """Return what was found, as JSON can hold it."""
    import numpy as np

    wrong = decided = None
    if found.probability is not None:
        wrong = float(np.where(found.mask, 1.0 - found.probability, found.probability).mean())
    if found.lower is not None and found.upper is not None:
        decided = float(((found.lower > 0.5) | (found.upper < 0.5)).mean())
    return {
        "files": {
            option.strip("-)").replace("certify (", ""): str(path)
            for option, path in targets.items()
            if path is not None
        },
        "volume": labels.ndim == len("ZHW"),
        "scribbles": {
            "object": int(np.count_nonzero(labels == 1)),
            "background": int(np.count_nonzero(labels == 2)),
        },
        "object": float(found.mask.mean()),
        "expected_wrong": wrong,
        "decided": decided,
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


def print_result(result: dict[str, Any]) -> None:
    """Say what was found."""
    strokes, wrong, decided = (result[k] for k in ("scribbles", "expected_wrong", "decided"))
    points, axes = ("pixels", "row, column")
    if result["volume"]:
        points, axes = ("voxels", "slice, row, column")
    expected = "" if wrong is None else f"; expected wrong: {100 * wrong:.1f} % of all"
    lines = [
        f"Strokes: {strokes['object']:,} {points} on the object, {strokes['background']:,} on the "
        "background.",
        f"Object: {100 * result['object']:.1f} % of the {points}{expected}.",
    ]
    if decided is not None:
        hint = "" if "lower" in result["files"] else " (--probabilities P.png keeps the bounds)"
        proven = f"Proven to be nearer to 0 or to 1: {100 * decided:.1f} % of the {points}"
        lines.append(f"{proven}{hint}.")
    for region in result["suggestions"][:1]:
        place = ", ".join(map(str, region["center"]))
        lines.append(
            f"Scribble next near ({place}) ({axes}): {region['pixels']} {points} around it are in "
            "doubt."
        )
    if not result["suggestions"] and wrong is not None:
        lines.append("No region is in doubt.")
    times = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in result["seconds"].items())
    lines.append(f"Wrote {', '.join(result['files'].values())}. Time: {times}.")
    for line in lines:
        say(line)
