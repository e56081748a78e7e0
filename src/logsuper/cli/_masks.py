"""What `denoise`, `fit` and `apply` do: find files, learn, clean, say what was found."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logsuper import __version__
from logsuper.cli import _cleaning, _learning
from logsuper.cli._console import Failed, one_line, print_object
from logsuper.cli._folder import (
    Failure,
    Plan,
    find_inputs,
    folders_inside,
    listed,
    pair_with,
    plan_outputs,
    spare_inputs,
)
from logsuper.cli._found import as_content, print_found, print_summary
from logsuper.cli._inputs import check_folder, writing
from logsuper.cli._ledger import Ledger, digest_of, key_of
from logsuper.cli._observed import Reading
from logsuper.cli._options import needs_model
from logsuper.cli._progress import Listener, stages
from logsuper.cli._sheets import check_overview, draw_overview
from logsuper.cli._shell_words import collected_warnings

if TYPE_CHECKING:
    from logsuper.estimators import MaskDenoiser

_MODELS = "model-*.npz"
# Files left out for one reason: this many have a line each, of more, this many are named in one.
_APART, _NAMED = 3, 20


@dataclasses.dataclass
class Run:
    """What a command has found so far.

    Attributes
    ----------
    reading : Reading
    plan : Plan
    began : float
        When, in seconds.
    denoiser : MaskDenoiser
    key : str
        Stands for the model: the same key, the same results.
    found : dict
        What the model is and was learned from, as JSON can hold it.
    warned : list of str
    failures : list of Failure
    """

    reading: Reading
    plan: Plan
    began: float = dataclasses.field(default_factory=time.perf_counter)
    denoiser: Any = None
    key: str = ""
    found: dict[str, Any] = dataclasses.field(default_factory=dict)
    warned: list[str] = dataclasses.field(default_factory=list)
    failures: list[Failure] = dataclasses.field(default_factory=list)

    def fail(self, failures: Sequence[Failure]) -> None:
        """Report files that are left out, once each, many with the same reason in one line."""
        known = {failure.source for failure in self.failures}
        new = [failure for failure in failures if failure.source not in known]
        self.failures += new
        groups: dict[str, list[Failure]] = {}
        for failure in new:
            groups.setdefault(failure.why, []).append(failure)
        for why, group in groups.items():
            if len(group) <= _APART:
                for failure in group:
                    _tell(f"Left out: {failure.reason}")
                continue
            names = [str(failure.source) for failure in group]
            rest = len(names) - _NAMED
            more = f" and {rest} more (--json lists all)" if rest > 0 else ""
            _tell(f"Left out: {len(group)} images, each {why}: {', '.join(names[:_NAMED])}{more}")

    def warn(self, texts: Sequence[str]) -> None:
        """Pass warnings on, once each."""
        for text in texts:
            if text not in self.warned:
                _tell(f"Warning: {text}")
                self.warned.append(text)

    def take(self, denoiser: MaskDenoiser, path: Path) -> None:
        """Clean by a model that was learned before, and is in this file."""
        self.denoiser, self.key = denoiser, key_of(digest_of(path))
        self.found = _learning.describe_model(self.denoiser)
        whole = self.reading.volume == "whole"
        if (self.found["axes"] == 3) != whole:
            kind, remedy = ("images", "leave out") if whole else ("volumes", "give")
            raise click.ClickException(f"{path}: was learned from {kind}; {remedy} --volume whole")


def _tell(text: str) -> None:
    """Print one line on the standard error."""
    click.echo(one_line(text), err=True)


def start(
    inputs: Sequence[Path],
    reading: Reading,
    out: Path | None = None,
    sides: Sequence[str] = (),
    model: Path | None = None,
) -> Run:
    """Load a model if there is one, find the files, and report those that are not images."""
    denoiser = None if model is None else needs_model(model)
    plan = find_inputs(inputs, out)
    if out is not None:
        plan = plan_outputs(plan, out, sides)
    run = Run(reading, plan)
    if denoiser is not None and model is not None:
        run.take(denoiser, model)
    run.fail(plan.failures)
    if not plan.jobs:
        raise Failed("none of the files is an image that can be read", **as_content(run))
    run.warn(list(_remarks(run, inputs, out)))
    return run


def _remarks(run: Run, inputs: Sequence[Path], out: Path | None) -> Iterator[str]:
    """Yield what may not be as a user thinks it is: folders that are not read, lossy masks."""
    if inside := folders_inside(inputs, out):
        yield f"folders in folders are not read: {listed(inside)}; give them, too, if you want that"
    lossy = [job.source for job in run.plan.jobs if job.info.lossy]
    if lossy:
        yield (
            f"JPEG compression has changed pixels near the borders of {listed(lossy)}; keep masks "
            "as PNG or TIFF if you can"
        )


def open_ledger(out: Path) -> Ledger:
    """Make the folder for results, and read what was written there before."""
    check_folder(out)
    with writing(out):
        return Ledger(out)


# ----------------------------------------------------------------------------------------- learning


def make_lesson(
    run: Run, noise: Any, seed: int, clean: Path | None, trees: bool | None, out: Path | None = None
) -> _learning.Lesson:
    """Return how to learn, and from which files; match clean masks with noisy ones if given."""
    pairs = None if clean is None else pair_with(run.plan, clean)
    if pairs is not None and out is not None:
        spare_inputs(run.plan.jobs, out, pairs.values())
    lesson = _learning.Lesson(noise, seed, run.reading, pairs, trees=trees)
    lesson = _learning.choose_files(run.plan.jobs, lesson)
    run.key = _lesson_key(run, lesson)
    return lesson


def learn_from_files(
    run: Run, lesson: _learning.Lesson, jobs: int, ledger: Ledger | None = None
) -> None:
    """Learn from the files of a command.

    With a ledger, the model that an earlier run has learned from the same files is taken.
    """
    began = time.perf_counter()
    stored = None if ledger is None else ledger.folder / f"model-{run.key[:32]}.npz"
    with stages() as stage:
        show = stage("Reading images to learn from", len(lesson.files))
        sample = _learning.take_sample(lesson, show)
        run.fail(sample.failures)
        run.warn([f"not learned from: {reason}" for reason in sample.unlearned])
        if not sample.noisy:
            what = "images" if lesson.pairs is None else "pairs of noisy and clean images"
            raise Failed(f"none of the {what} could be read", **as_content(run))
        run.denoiser = None if stored is None else _load_stored(stored)
        if run.denoiser is None:
            gone = {failure.source for failure in run.failures}
            shapes = {job.info.shape for job in run.plan.jobs if job.source not in gone}
            one_shape = len(shapes) == 1
            run.denoiser, warned = _learning.learn(sample, lesson, one_shape, jobs, Listener(stage))
            run.warn(warned)
            if ledger is not None and stored is not None:
                _store(run.denoiser, stored, ledger)
    run.found = {
        "images": sample.files,
        "pixels": sample.pixels,
        "labelled": lesson.pairs is not None,
        "noise_error": _learning.noise_error(lesson, run.denoiser),
        "learning_seconds": time.perf_counter() - began,
        **_learning.describe_model(run.denoiser),
    }


def _load_stored(path: Path) -> MaskDenoiser | None:
    """Return the model of an earlier run; None if there is none that can be read."""
    try:
        found: MaskDenoiser = needs_model(path)
        return found
    except click.ClickException:
        return None


def _store(denoiser: MaskDenoiser, path: Path, ledger: Ledger) -> None:
    """Keep a model for a second run, in the place of older ones."""
    with writing(ledger.out):
        denoiser.save(path)
        for old in path.parent.glob(_MODELS):
            if old != path:
                old.unlink(missing_ok=True)


def _lesson_key(run: Run, lesson: _learning.Lesson) -> str:
    """Return what a learned model depends on, in 64 digits."""
    pairs, files = lesson.pairs or {}, [job.source for job in lesson.files]
    contents = [(_known(file), _known(pairs[file]) if file in pairs else "") for file in files]
    shapes = sorted({str(job.info.shape) for job in run.plan.jobs})
    settings = [__version__, lesson.noise, lesson.seed, dataclasses.astuple(lesson.reading)]
    settings.append(lesson.context)
    return key_of(settings, shapes, lesson.quota, lesson.pairs is None, contents)


def _known(path: Path) -> str:
    """Return the digest of a file, "" if it cannot be read, which is reported later."""
    try:
        return digest_of(path)
    except OSError:
        return ""


def save_model(denoiser: MaskDenoiser, path: Path, force: bool) -> None:
    """Write a model; refuse to replace a file that holds another."""
    if os.path.exists(path):
        check_model_path(path, denoiser, force)
        if not force:
            return
    with writing(path, "--save-model"):
        denoiser.save(path)


def check_model_path(path: Path, denoiser: MaskDenoiser | None, force: bool) -> None:
    """Refuse a file that cannot be written, or replaced, unless it holds this model."""
    with writing(path, "--save-model"), contextlib.suppress(FileNotFoundError):
        path.stat()
    if not os.path.exists(path):
        return check_folder(path.parent, hint="--save-model")
    if os.path.isdir(path):
        raise click.ClickException(f"--save-model: {path} is a folder")
    if not (os.path.isfile(path) and zipfile.is_zipfile(path)):  # a pipe would wait for ever
        raise click.ClickException(
            f"--save-model: {path} is there already, and is no model; give another name"
        )
    if force:
        return
    if denoiser is not None:
        try:
            stored = _learning.describe_model(needs_model(path))
        except click.ClickException:
            stored = {}
        if stored == _learning.describe_model(denoiser):
            return
    raise click.ClickException(
        f"--save-model: {path} is there already; give another name, or --force to replace it"
    )


# ----------------------------------------------------------------------------------------- cleaning


def check_outputs(run: Run, ledger: Ledger, options: Mapping[str, Any]) -> None:
    """Refuse, before any work, to write over files that are not from the same command."""
    _cleaning.refuse_strangers(run.plan.jobs, run.key, run.reading, ledger, options["force"])
    if options["compare"]:
        check_overview(ledger, options["force"])


def clean_and_report(run: Run, out: Path, ledger: Ledger, options: Mapping[str, Any]) -> int:
    """Clean all files of a command into a folder; return 0 if all were cleaned, 1 for some."""
    force, as_json = options["force"], options["as_json"]
    if not as_json:
        print_found(run)
    cleaned = _clean(run, out, ledger, options["jobs"], force)
    if options["compare"]:
        draw_overview(run.plan.jobs, ledger)
    ledger.tidy()
    seconds = time.perf_counter() - run.began
    content = as_content(run, cleaned, out=str(out), seconds=seconds)
    if not cleaned:
        raise Failed("none of the images could be cleaned", **content)
    if as_json:
        print_object(content)
    else:
        print_summary(run, cleaned, out, seconds)
    return 1 if run.failures else 0


def _clean(run: Run, out: Path, ledger: Ledger, jobs: int, force: bool) -> list[_cleaning.Cleaned]:
    cleaner = _cleaning.Cleaner(run.denoiser, run.key, run.reading, out, ledger, jobs)
    known = {failure.source for failure in run.failures}
    wanted = [job for job in run.plan.jobs if job.source not in known]
    cleaned: list[_cleaning.Cleaned] = []
    failed: list[Failure] = []
    try:
        with collected_warnings() as warned, stages() as stage:
            show = stage("Cleaning", sum(job.info.size for job in wanted))
            for result in cleaner.clean(wanted, show, force):
                if isinstance(result, Failure):
                    failed.append(result)
                else:
                    cleaned.append(result)
    except KeyboardInterrupt:
        _tell(f"{len(cleaned)} of {len(wanted)} images are done; the same command continues.")
        raise
    finally:
        run.fail(failed)
    run.warn(warned)
    order = {job.source: place for place, job in enumerate(run.plan.jobs)}
    return sorted(cleaned, key=lambda one: order[one.source])
