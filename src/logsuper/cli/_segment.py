"""`logsuper segment PHOTO --scribbles S --out MASK`: cut an object out of a photograph."""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logsuper.cli._console import one_line
from logsuper.cli._folder import find_inputs, pair_with
from logsuper.cli._inputs import SEED, TextPath, in_one_line, writing
from logsuper.cli._masks import check_model_path
from logsuper.cli._options import MISSING
from logsuper.cli._pictures import read_mask
from logsuper.cli._progress import stages
from logsuper.cli._segment_files import (
    check_targets,
    describe,
    print_result,
    write_mask,
    write_rest,
)

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
_FOLDER = TextPath(exists=True, file_okay=False, path_type=Path)

# Regions that are printed.
_REGIONS = 3
# Levels by which most pixels of a copy that was compressed again differ at most, and by which a
# pixel differs that was painted over.
_NEAR, _FAR = 16, 64

_EXAMPLES = """\b
Examples:
  logsuper segment photo.jpg --scribbles strokes.png --out mask.png
  logsuper segment photo.jpg --scribbles strokes.png --out mask.png --suggest next.png
  logsuper segment scan.tif --scribbles strokes.tif --out mask.tif --probabilities p.tif
  logsuper segment cell.png --scribbles s.png --out mask.png --examples cells/ --masks masks/
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
@click.option("--no-probabilities", is_flag=True, help="Stop when the mask is written.")
@click.option(
    "--certify",
    is_flag=True,
    help="Also prove bounds on the probabilities, with four neighbours of a pixel, and write them "
    "beside --probabilities P.png: P-lower.png, P-upper.png. Takes long; not for volumes.",
)
@click.option(
    "--learn",
    is_flag=True,
    help="Learn strength and scale of the model from the strokes, each held out in turn: needs "
    "two or more on the object or on the background, and some seconds.",
)
@click.option("--model", type=_FILE, help="A saved ScribbleSegmenter instead of the shipped one.")
@click.option(
    "--examples",
    type=_FOLDER,
    help="Learn the model from this folder of images, once, before the photo is cut.",
)
@click.option("--masks", type=_FOLDER, help="Masks of --examples, with the same names.")
@click.option(
    "--missing",
    type=MISSING,
    metavar="COLOUR|alpha|nan",
    help="Pixels of --masks without a label: those of a grey level (128) or colour (red), "
    "transparent ones (alpha), or NaN.",
)
@click.option(
    "--save-model", type=_FILE, help="Save what --examples have taught, for --model later."
)
@click.option("--seed", type=SEED, default=0, help="Random seed of the probabilities.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
def segment(
    photo: Path,
    scribbles: Path,
    out: Path,
    probabilities: Path | None,
    suggest: Path | None,
    no_probabilities: bool,
    certify: bool,
    learn: bool,
    model: Path | None,
    examples: Path | None,
    masks: Path | None,
    missing: Any,
    save_model: Path | None,
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

    The mask is written first; Ctrl-C while probabilities are computed leaves it there.
    """
    wanted = {"--probabilities": probabilities, "--suggest": suggest, "--certify": certify}
    _refuse_together(no_probabilities, wanted, model, examples, masks, save_model)
    targets = {"--out": out, "--probabilities": probabilities, "--suggest": suggest}
    if certify and probabilities is not None:
        for side in ("lower", "upper"):
            name = f"{probabilities.stem}-{side}{probabilities.suffix}"
            targets[f"--certify ({side})"] = probabilities.with_name(name)
    chosen = _load(model)
    image = _read(photo)
    drawn = _read(scribbles, "indices")
    labels, inexact = read_strokes(drawn, image, str(scribbles))
    check_targets(targets, (photo, scribbles, model), labels.shape, force)
    if certify and labels.ndim != 2:
        raise click.UsageError("--certify is for images; leave it out for volumes")
    if save_model is not None:
        check_model_path(save_model, None, force)
    chosen.set_params(
        random_state=seed,
        learn="strokes" if learn else chosen.learn,
        neighbors=4 if certify else chosen.neighbors,
        channel_axis=-1 if image.ndim == labels.ndim + 1 else None,
    )
    warned: list[str] = []
    text = ""
    if scribbles.suffix.lower() in (".jpg", ".jpeg"):
        text = f"{scribbles} is a JPEG file, whose colours are inexact: strokes may be misread"
    elif inexact:
        text = (
            f"{scribbles} is painted on a copy of {photo} that was compressed again: strokes in "
            "nearly the colours of the photo are passed over"
        )
    if text:
        warned.append(f"{text}; save them as PNG, painted on the very file or on a black ground")
        click.echo(f"Warning: {warned[-1]}", err=True)
    if examples is not None and masks is not None:
        _learn(chosen, examples, masks, missing, labels.ndim, warned)
        if save_model is not None:
            with writing(save_model, "--save-model"):
                chosen.save(save_model)
    with _naming(photo, scribbles), _warning(warned):
        session, found, prepared = _cut(chosen, image, labels)
    write_mask(out, found, force)
    regions: list[Suggestion] = []
    if not no_probabilities:
        with _naming(photo, scribbles), _warning(warned):
            found = _find_probabilities(session, chosen.n_samples, out, certify)
        regions = found.suggest(_REGIONS)
        write_rest(targets, image, found, regions, force)
    result = describe(targets, labels, found, regions)
    result["seconds"] = {"preparing": prepared, **result["seconds"]}
    if save_model is not None:
        result["files"]["save-model"] = str(save_model)
    if as_json:
        click.echo(json.dumps({**result, "warnings": warned}))
    else:
        print_result(result)


def read_strokes(drawn: NDArray[Any], image: NDArray[Any], name: str) -> tuple[NDArray[Any], bool]:
    """Return the labels in a file of strokes, and whether it is a copy that was compressed again.

    In a copy of the photograph only what was painted over is a stroke.
    """
    labels = as_labels(drawn, name)
    same, exactly = _unchanged(image, drawn)
    if not _painted(same, image):
        return labels, False
    labels[same] = 0
    labels[(labels > 0) & ~_turned(drawn, image, labels)] = 0
    return labels, not exactly


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


def _refuse_together(
    alone: bool,
    wanted: dict[str, Any],
    model: Path | None,
    examples: Path | None,
    masks: Path | None,
    save_model: Path | None,
) -> None:
    """Refuse options that do not belong together."""
    asked = [option for option, value in wanted.items() if value]
    if alone and asked:
        raise click.UsageError(f"{asked[0]} needs probabilities; leave out --no-probabilities")
    if (examples is None) != (masks is None):
        raise click.UsageError("--examples and --masks belong together: give both, or neither")
    if examples is not None and model is not None:
        raise click.UsageError("--examples teach a model, and --model is one; give one of them")
    if save_model is not None and examples is None:
        raise click.UsageError("--save-model saves what --examples and --masks teach; give them")


def _load(model: Path | None) -> ScribbleSegmenter:
    from logsuper.estimators import ScribbleSegmenter

    with in_one_line("--model: "):
        return ScribbleSegmenter() if model is None else ScribbleSegmenter.load(model)


def _read(path: Path, palette: str = "colors") -> NDArray[Any]:
    from logsuper.io import read_image

    with in_one_line():
        return read_image(path, color=True, palette=palette)


def _unchanged(image: NDArray[Any], drawn: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """Return where a file of strokes has the pixels of the photograph, and whether exactly.

    A copy of the photograph that was compressed once more has nearly the same pixels.
    """
    import numpy as np

    if drawn.ndim != 3 or drawn.shape != image.shape or drawn.dtype != image.dtype:
        return np.zeros(drawn.shape[:2], dtype=bool), True
    same = np.asarray((drawn == image).all(axis=-1))
    if drawn.dtype != np.uint8 or _painted(same, image):
        return same, True
    gap = np.abs(drawn.astype(np.int16) - image).max(axis=-1)
    if not _painted(gap <= _NEAR, image):
        return same, True
    return gap <= _FAR, False


def _turned(drawn: NDArray[Any], image: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Return where paint has brought a pixel nearer to the colour of its label.

    The soft rim of a blue stroke on something red is still red, but less so.
    """
    import numpy as np

    red = [
        one[..., 0] - one[..., 1:].max(axis=-1) for one in (drawn.astype(int), image.astype(int))
    ]
    more = red[0] - red[1]
    return np.asarray(np.where(labels == 1, more > 0, more < 0))


def _painted(same: NDArray[Any], image: NDArray[Any]) -> bool:
    """Whether strokes were painted on the photograph, not on a black ground of their own."""
    if not same.any():
        return False
    lit = image.any(axis=-1)
    return bool(2 * (same & lit).sum() > lit.sum())


@contextlib.contextmanager
def _naming(photo: Path, scribbles: Path) -> Iterator[None]:
    """Say in one line what is wrong, beginning with the file."""
    try:
        yield
    except (ValueError, TypeError, MemoryError) as error:
        text = str(error)
        about = scribbles if text.startswith("scribbles") else photo
        raise click.ClickException(f"{about}: {text or 'there is not enough memory'}") from error


@contextlib.contextmanager
def _warning(warned: list[str]) -> Iterator[None]:
    """Print warnings on the standard error, once each, in words of the shell."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    for one in said:
        text = one_line(str(one.message))
        text = text.replace("learn='strokes', or fit", "--learn, or --examples")
        text = text.replace("learn='strokes'", "--learn")
        if text not in warned:
            click.echo(f"Warning: {text}", err=True)
            warned.append(text)


def _learn(
    chosen: ScribbleSegmenter,
    examples: Path,
    masks: Path,
    missing: Any,
    axes: int,
    warned: list[str],
) -> None:
    """Fit the constants to a folder of images with masks."""
    plan = find_inputs([examples], color=True)
    pairs = pair_with(plan, masks, "--masks", "an image")
    jobs = [job for job in plan.jobs if job.source in pairs]
    images, truths = [], []
    with in_one_line("--examples: "):
        for job in jobs:
            image, truth = _read(job.source), read_mask(pairs[job.source], missing)
            if image.ndim not in (axes, axes + 1) or image.shape[:axes] != truth.shape:
                raise ValueError(
                    f"{pairs[job.source]}: has shape {truth.shape}, but {job.source} has "
                    f"{image.shape}; a mask has the size of its image"
                )
            images.append(image)
            truths.append(truth)
    axis = chosen.channel_axis
    with stages() as stage, _warning(warned):
        done: list[Callable[[int], None]] = []

        def tell(number: int, total: int) -> None:
            done.extend([] if done else [stage("Learning from examples", total)])
            done[0](number)

        try:
            chosen.set_params(callback=tell, channel_axis="auto").fit(images, truths)
        except (ValueError, TypeError, MemoryError) as error:
            text = f"--examples: cannot learn from {examples}: {error}"
            raise click.ClickException(text) from error
    chosen.set_params(callback=None, channel_axis=axis)


def _cut(
    chosen: ScribbleSegmenter, image: NDArray[Any], labels: NDArray[Any]
) -> tuple[ScribbleSession, Segmentation, float]:
    """Return the session, the mask, and the seconds that were spent on preparing the photograph."""
    with stages() as stage:
        stage("preparing", None)
        begun = time.perf_counter()
        session = chosen.start(image)
        prepared = time.perf_counter() - begun
        stage("mask", None)
        return session, session.segment(labels), prepared


def _find_probabilities(
    session: ScribbleSession, total: int, out: Path, certify: bool
) -> Segmentation:
    try:
        with stages() as stage:
            tell = stage("probabilities", total)
            return session.probabilities(certify=certify, callback=lambda done, total: tell(done))
    except KeyboardInterrupt:
        click.echo(f"The mask is in {out}; probabilities were not finished.", err=True)
        raise
