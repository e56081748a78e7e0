"""Learning a field behind a classifier from files, and segmenting files by it."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from logsuper.cli import _cleaning
from logsuper.cli._cleaning import Cleaned
from logsuper.cli._folder import Failure, Job, Plan, find_inputs, pair_with, plan_outputs
from logsuper.cli._ledger import Ledger, digest_of, key_of
from logsuper.cli._masks import Run
from logsuper.cli._observed import Reading
from logsuper.cli._pictures import compose, count_channels, read_map, read_mask, read_picture
from logsuper.cli._progress import stages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logsuper.estimators import MaskCRF

# Pixels that are learned from at most, of images drawn at random; pixels segmented at a time.
_SAMPLE, _BATCH = 1 << 25, 1 << 20
_GREY = (
    "some images are grey, and the model has learned from colours: it may see little in them, "
    "unless it has learned from grey ones, too"
)


@dataclasses.dataclass(frozen=True)
class Lesson:
    """What to learn from.

    Attributes
    ----------
    masks : dict of Path to Path
        The mask of each image that has one.
    maps : dict of Path to Path, or None
        The probability map of each image that has one; None to learn without a network.
    missing : see `logsuper.io.read_image`
    seed : int
        Of the choice among too many images.
    """

    masks: Mapping[Path, Path]
    maps: Mapping[Path, Path] | None
    missing: Any
    seed: int


def start(inputs: Sequence[Path], out: Path | None = None, sides: Sequence[str] = ()) -> Run:
    """Find the files of a command, and report those that are not images."""
    plan = find_inputs(inputs, out, color=True)
    if out is not None:
        plan = plan_outputs(plan, out, sides)
    run = Run(Reading(), plan)
    run.fail(plan.failures)
    if not plan.jobs:
        raise click.ClickException("none of the files is an image that can be read")
    return run


def find_maps(plan: Plan, folder: Path | None) -> dict[Path, Path] | None:
    """Return the probability map of each image that has one."""
    if folder is None:
        return None
    return pair_with(plan, folder, "--unary-probabilities", "an image")


def load(run: Run, path: Path, maps: bool) -> None:
    """Take the model in a file."""
    from logsuper.estimators import MaskCRF, load_model

    try:
        model = load_model(path)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error
    except (ValueError, MemoryError) as error:
        raise click.ClickException(str(error)) from error
    if not isinstance(model, MaskCRF):
        raise click.ClickException(
            f"{path}: is a {type(model).__name__}, not a field behind a classifier (logsuper crf "
            "fit makes one)"
        )
    if model.axes_ == 1 or model.unary == "log_odds":
        what = "graphs" if model.axes_ == 1 else "log-odds; fit it with unary='probabilities'"
        raise click.ClickException(f"{path}: is a model of {what}, which files do not hold")
    if maps != (model.unary == "probabilities"):
        remedy = "leave out" if maps else "give"
        behind = "a classifier of its own" if maps else "a network's probabilities"
        raise click.ClickException(
            f"{path}: is a field behind {behind}; {remedy} --unary-probabilities"
        )
    run.denoiser, run.key = model, key_of(digest_of(path))
    run.found = describe(model)


def describe(crf: MaskCRF) -> dict[str, Any]:
    """Return what a model is, as JSON can hold it."""
    unary = crf.unary if isinstance(crf.unary, str) else type(crf.unary).__name__
    return {
        "unary": unary,
        "edges": crf.edges,
        "weights": crf.alpha_.tolist(),
        "axes": crf.axes_,
        "channels": crf.channels_ - (unary == "probabilities"),
        "working_size": crf.working_size_,
        "learner": crf.learner_,
        "converged": crf.converged_,
    }


# ----------------------------------------------------------------------------------------- learning


def learn(run: Run, lesson: Lesson, **parameters: Any) -> None:
    """Learn from the files of a command; `parameters` are those of `MaskCRF`."""
    from logsuper._base import ConvergenceWarning
    from logsuper.estimators import MaskCRF

    with stages() as stage:
        chosen = _choose_files(run, lesson)
        jobs, stacks, masks = _read_all(run, lesson, chosen, stage("Reading images", len(chosen)))
        labelled = sum(int((mask == mask).sum()) for mask in masks)
        object_ = sum(int((mask == 1).sum()) for mask in masks) / max(labelled, 1)
        if object_ in (0.0, 1.0):
            kind = "black" if object_ == 0.0 else "white"
            raise click.ClickException(
                f"--masks: every pixel with a label is {kind}; a mask shows an object in white on "
                "black"
            )
        stage("Learning", None)
        crf = MaskCRF(**parameters)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                crf.fit(stacks, masks)
            except (ValueError, MemoryError) as error:
                text = name_files(str(error), jobs, lesson.masks)
                raise click.ClickException(f"cannot learn from these images: {text}") from error
    crf.set_params(n_jobs=None)  # the file does not depend on the number of threads
    texts = [str(one.message) for one in said if one.category is not ConvergenceWarning]
    run.warn(list(dict.fromkeys(texts)))
    run.denoiser = crf
    alone = _wrong_alone(crf, masks)
    if alone is not None and alone >= min(object_, 1.0 - object_):
        run.warn(
            [
                "on images that it has not seen, the classifier is no better than one label for "
                "all pixels: give more images, or other ones"
            ]
        )
    run.found = {
        "images": len(jobs),
        "pixels": sum(mask.size for mask in masks),
        "labelled": labelled,
        "object": object_,
        "alone_wrong": alone,
        **describe(crf),
    }


def name_files(text: str, jobs: Sequence[Job], masks: Mapping[Path, Path]) -> str:
    """Return a message of the estimator with files in the place of entries of lists."""

    def name(found: re.Match[str]) -> str:
        job = jobs[int(found[2])]
        return str(job.source if found[1] == "images" else masks[job.source])

    return re.sub(r"\b(images|masks)\[(\d+)\]", name, text)


def _choose_files(run: Run, lesson: Lesson) -> list[Job]:
    """Return images with a mask, and a map where that is needed; some, where all are too many."""
    import numpy as np

    jobs = [job for job in run.plan.jobs if job.source in lesson.masks]
    if lesson.maps is not None:
        alone = [job for job in jobs if job.source not in lesson.maps]
        run.fail([Failure(job.source, f"{job.source}: has no probability map") for job in alone])
        jobs = [job for job in jobs if job.source in lesson.maps]
    if not jobs:
        raise click.ClickException("no image has both a mask and a probability map")
    order = np.random.default_rng(lesson.seed).permutation(len(jobs))
    sizes = np.cumsum([jobs[k].info.size for k in order])
    kept = sorted(order[: max(2, int((sizes <= _SAMPLE).sum()))].tolist())
    if len(kept) < len(jobs):
        run.warn([f"learned from {len(kept)} of {len(jobs)} images, drawn at random: many pixels"])
    return [jobs[k] for k in kept]


def _read_all(
    run: Run, lesson: Lesson, jobs: Sequence[Job], show: Callable[[int], None]
) -> tuple[list[Job], list[NDArray[Any]], list[NDArray[Any]]]:
    """Return the files that could be read, what the field is given for each, and the masks."""
    read: list[tuple[Job, NDArray[Any], NDArray[Any]]] = []
    for number, job in enumerate(jobs):
        show(number + 1)
        try:
            mask = read_mask(lesson.masks[job.source], lesson.missing)
            picture = read_picture(job.source)
            axes = mask.ndim
            if picture.ndim not in (axes, axes + 1) or picture.shape[:axes] != mask.shape:
                raise ValueError(
                    f"{lesson.masks[job.source]}: has shape {mask.shape}, but {job.source} has "
                    f"{picture.shape}; a mask has the size of its image"
                )
            read.append((job, picture, mask))
        except (OSError, ValueError, MemoryError) as error:
            run.fail([Failure(job.source, str(error))])
    used: list[tuple[Job, NDArray[Any], NDArray[Any]]] = []
    colours = max((count_channels(picture, mask.ndim) for _, picture, mask in read), default=1)
    for job, picture, mask in read:
        try:
            odds = _read_odds(job, lesson.maps)
            used.append((job, compose(job, picture, odds, read[0][2].ndim, colours), mask))
        except (OSError, ValueError, MemoryError) as error:
            run.fail([Failure(job.source, str(error))])
    if not used:
        raise click.ClickException("none of the images could be read together with its mask")
    files, stacks, masks = (list(column) for column in zip(*used, strict=True))
    return files, stacks, masks


def _read_odds(job: Job, maps: Mapping[Path, Path] | None) -> tuple[Path, NDArray[Any]] | None:
    if maps is None:
        return None
    if job.source not in maps:
        raise ValueError(f"{job.source}: has no probability map")
    return maps[job.source], read_map(maps[job.source])


def _wrong_alone(crf: MaskCRF, masks: Sequence[NDArray[Any]]) -> float | None:
    """Return the share of labels that the classifier gets wrong on images it has not seen."""
    if crf.held_log_odds_ is None:
        return None
    pairs = list(zip(crf.held_log_odds_, masks, strict=True))
    wrong = sum(int((((z > 0) != mask) & (mask == mask)).sum()) for z, mask in pairs)
    return wrong / sum(int((mask == mask).sum()) for mask in masks)


# --------------------------------------------------------------------------------------- segmenting


@dataclasses.dataclass(eq=False)
class Painter:
    """Segments files into a folder.

    Attributes
    ----------
    crf : MaskCRF
    key : str
        Stands for the model: the same key, the same results.
    maps : dict of Path to Path, or None
        Probability maps.
    ledger : Ledger
    warnings : list of str
    """

    crf: MaskCRF
    key: str
    maps: Mapping[Path, Path] | None
    ledger: Ledger
    warnings: list[str] = dataclasses.field(default_factory=list)

    def key_for(self, job: Job) -> str:
        """Return what stands for the model, and the probability map of an image."""
        path = None if self.maps is None else self.maps.get(job.source)
        return self.key if path is None else key_of(self.key, digest_of(path))

    def refuse_strangers(self, jobs: Sequence[Job], force: bool) -> None:
        """Refuse, before any work, to write over files that are not from the same command."""
        for job in jobs:
            _cleaning.refuse_strangers([job], self.key_for(job), Reading(), self.ledger, force)

    def paint(
        self, jobs: Sequence[Job], show: Callable[[int], None], force: bool
    ) -> Iterator[Cleaned | Failure]:
        """Yield what came of each file, when all its results are written.

        Parameters
        ----------
        jobs : sequence of Job
        show : callable
            Is given how many pixels are done.
        force : bool
            Whether finished files are segmented again.
        """
        return _cleaning.counted(jobs, self._stream(jobs, force), show)

    def _stream(self, jobs: Sequence[Job], force: bool) -> Iterator[Cleaned | Failure]:
        batch: list[tuple[Job, NDArray[Any]]] = []
        for job in jobs:
            try:
                found = None
                if not force:
                    found = _cleaning.finished(job, self.key_for(job), Reading(), self.ledger)
                if found is not None:
                    yield Cleaned(job.source, self._mask_of(job), found, before=True)
                    continue
                batch.append((job, self._read(job)))
            except (OSError, ValueError, MemoryError) as error:
                yield Failure(job.source, str(error))
            if sum(job.info.size for job, _ in batch) >= _BATCH:
                yield from self._paint_batch(batch)
                batch = []
        yield from self._paint_batch(batch)

    def _read(self, job: Job) -> NDArray[Any]:
        odds = _read_odds(job, self.maps)
        colours = self.crf.channels_ - (odds is not None)
        picture = read_picture(job.source)
        stack = compose(job, picture, odds, self.crf.axes_, colours)
        if count_channels(picture, self.crf.axes_) < colours and _GREY not in self.warnings:
            self.warnings.append(_GREY)
        return stack

    def _paint_batch(self, batch: list[tuple[Job, NDArray[Any]]]) -> Iterator[Cleaned | Failure]:
        """Segment some files together; if that fails, each alone, to find the one that fails."""
        if not batch:
            return
        try:
            found = self._predict([stack for _, stack in batch])
        except (ValueError, MemoryError) as error:
            if len(batch) > 1:
                for one in batch:
                    yield from self._paint_batch([one])
                return
            [(job, _)] = batch
            reason = name_files(str(error), [job], {}) or "there is not enough memory"
            yield Failure(job.source, f"{job.source}: {reason}")
            return
        for (job, _), (mask, p) in zip(batch, found, strict=True):
            yield self._finish(job, mask, p)

    def _predict(self, stacks: list[NDArray[Any]]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return the mask and the probabilities of each image."""
        from logsuper.learning import LEARNERS

        decode = self.crf.decode
        if decode == "auto":
            decode = LEARNERS[self.crf.learner_].decode
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            chances = self.crf.predict_proba(stacks)
            masks = [p > 0.5 for p in chances] if decode == "mean" else self.crf.predict(stacks)
        texts = dict.fromkeys(str(one.message) for one in said)
        self.warnings += [text for text in texts if text not in self.warnings]
        return list(zip(masks, chances, strict=True))

    def _finish(self, job: Job, mask: NDArray[Any], p: NDArray[Any]) -> Cleaned:
        """Write all results for a file, the mask last."""
        import numpy as np

        object_ = mask > 0
        figures = {
            "shape": list(object_.shape),
            "pixels": object_.size,
            "object": int(np.count_nonzero(object_)),
            "wrong": float(np.where(object_, 1.0 - p, p).sum()),
        }
        key = key_of(self.key_for(job), dataclasses.astuple(Reading()), digest_of(job.source))
        bits = job.outputs["mask"].lower().endswith(".pbm")  # which holds nothing else
        levels = object_ if bits else np.where(object_, 255, 0).astype(np.uint8)
        contents: dict[str, NDArray[Any]] = {}
        if "probabilities" in job.outputs:
            contents["probabilities"] = np.rint(65535.0 * p).astype(np.uint16)
        contents["mask"] = levels
        for kind, pixels in contents.items():
            name = job.outputs[kind]
            self.ledger.write(name, key, partial(_encode, name, pixels), figures)
        return Cleaned(job.source, self._mask_of(job), figures)

    def _mask_of(self, job: Job) -> Path:
        return self.ledger.out / job.outputs["mask"]


def _encode(name: str, pixels: NDArray[Any], file: BinaryIO) -> None:
    from logsuper.io import encode_image

    encode_image(file, name, pixels)
