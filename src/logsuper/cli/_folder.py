"""Which files a command reads, and which ones it writes for them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from logsuper.io import ImageInfo

_SUFFIX = {"PNG": ".png", "BMP": ".bmp", "PPM": ".pgm", "TIFF": ".tif", "NPY": ".npy"}
_SAME = {
    "PNG": (".png",),
    "BMP": (".bmp",),
    "PPM": (".pbm", ".pgm", ".pnm"),
    "TIFF": (".tif", ".tiff"),
    "NPY": (".npy",),
}
_LISTED = 10  # pairs of clashing names in a message
_SEARCHED = 100  # folders in folders that are searched for images
RECORD = ".logsuper"
"""The folder, in one of results, with a record of what was written."""
OVERVIEW = "compare/overview.png"
"""One picture of the first sheets, with --compare."""


@dataclasses.dataclass(frozen=True)
class Failure:
    """A file that could not be cleaned, and why."""

    source: Path
    reason: str

    @property
    def why(self) -> str:
        """The reason without the name of the file."""
        return self.reason.removeprefix(f"{self.source}: ")


@dataclasses.dataclass(frozen=True)
class Job:
    """A file to be read, and what is written for it.

    Attributes
    ----------
    source : Path
    info : ImageInfo
    outputs : dict of str to str
        What is written ("mask", "probabilities", "uncertain", "compare") and where, below the
        folder for results.
    """

    source: Path
    info: ImageInfo
    outputs: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Plan:
    """All files of a command.

    Attributes
    ----------
    jobs : list of Job
    failures : list of Failure
        Files that are no images.
    """

    jobs: list[Job]
    failures: list[Failure]


def find_inputs(given: Sequence[Path], out: Path | None = None, color: bool = False) -> Plan:
    """Return the images among files and in folders; refuse a folder for results that is one.

    Nothing but the heads of files is read.
    """
    from logsuper.io import SUFFIXES, find_images, inspect_image

    if out is not None:
        for path in given:
            if os.path.isdir(path) and os.path.exists(out) and out.samefile(path):
                raise click.ClickException(
                    f"--out: {out} is a folder of images to be read, which are never replaced; "
                    "give another"
                )
    try:
        files = find_images(given)
    except OSError as error:
        raise click.ClickException(_reason(error)) from error
    if not files:
        inside = folders_inside(given, out)
        raise click.ClickException(
            f"there is no image in {', '.join(map(str, given))}: none of its files ends in "
            f"{', '.join(SUFFIXES)}, and folders in it are not read"
            + (f"; give the images in {listed(inside)} instead" if inside else "")
        )
    plan = Plan([], [])
    for file in files:
        try:
            plan.jobs.append(Job(file, inspect_image(file, color)))
        except (OSError, ValueError, MemoryError) as error:
            plan.failures.append(Failure(file, _reason(error)))
    return plan


def folders_inside(given: Sequence[Path], out: Path | None) -> list[Path]:
    """Return folders with images in the given folders, which are not read.

    Folders of results are not among them.
    """
    from logsuper.io import find_images

    read = {os.path.realpath(path) for path in given}
    own = "" if out is None else os.path.realpath(out)
    found: list[Path] = []
    for path in given:
        if not path.is_dir() or path.suffix == ".zarr":
            continue
        sides = {"probabilities", "uncertain", "compare"} if (path / RECORD).is_dir() else set()
        with contextlib.suppress(OSError):
            inside = sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
            for name in [name for name in inside if name not in sides][:_SEARCHED]:
                folder = path / name
                is_read = os.path.realpath(folder) in read or os.path.realpath(folder) == own
                skipped = name.startswith(".") or name.lower().endswith(".zarr")
                if is_read or skipped or (folder / RECORD).is_dir():
                    continue
                with contextlib.suppress(OSError):
                    found += [folder] if find_images(folder) else []
    return found


def listed(paths: Sequence[Path]) -> str:
    """Return paths as a list of words, of many the first ones."""
    names = [str(path) for path in paths[:_LISTED]]
    rest = len(paths) - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest else "")


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def plan_outputs(plan: Plan, out: Path, sides: Sequence[str]) -> Plan:
    """Return the plan with the files that are written; refuse two that would be the same.

    Names are kept, and folders from the deepest one on that holds all inputs.

    Parameters
    ----------
    plan : Plan
    out : Path
    sides : sequence of str
        What is written besides masks.
    """
    jobs: list[Job] = []
    clashes: list[str] = []
    taken: dict[str, Path] = {OVERVIEW: Path("the overview")} if "compare" in sides else {}
    for job, below in zip(plan.jobs, _folders(plan), strict=True):
        name = below / _mask_name(job)
        outputs = {"mask": name.as_posix()}
        for side in sides:
            suffix = ".tif" if _deep(job) and side != "compare" else ".png"
            outputs[side] = (Path(side) / below / f"{name.stem}{suffix}").as_posix()
        for path in outputs.values():
            if path in taken:
                clashes.append(f"{taken[path]} and {job.source} to {out / path}")
                break
            taken[path] = job.source
        jobs.append(dataclasses.replace(job, outputs=outputs))
    if clashes:
        rest = len(clashes) - _LISTED
        more = f"; and {rest} more pairs" if rest > 0 else ""
        raise click.ClickException(
            f"two images would be written to one file: {'; '.join(clashes[:_LISTED])}{more}. "
            "Rename one of each pair, or clean them into different folders"
        )
    spare_inputs(jobs, out, [job.source for job in jobs])
    return Plan(jobs, plan.failures)


def _folders(plan: Plan) -> list[Path]:
    """Return the folder of each input, from the deepest one on that holds all inputs."""
    parents = [os.path.dirname(os.path.abspath(job.source)) for job in plan.jobs]
    root = os.path.commonpath(parents) if parents else ""
    return [Path(os.path.relpath(parent, root)) for parent in parents]


def _deep(job: Job) -> bool:
    return len(job.info.shape) == 3 or job.info.format == "TIFF"


def _mask_name(job: Job) -> str:
    """Return the name of the mask: that of the input if its format is lossless and written here."""
    path, kind = job.source, job.info.format
    if path.suffix.lower() in _SAME.get(kind, ()) and not job.info.lossy:
        return path.name
    if kind == "ZARR":
        return path.name if path.suffix == ".zarr" else f"{path.name}.zarr"
    if job.info.lossy and kind == "TIFF":
        return f"{path.stem}.tif"
    return f"{path.stem}{'.png' if job.info.lossy else _SUFFIX.get(kind, '.png')}"


def spare_inputs(jobs: Sequence[Job], out: Path, inputs: Iterable[Path]) -> None:
    """Refuse results in the place of inputs."""
    sources = {os.path.realpath(path): path for path in inputs}
    for job in jobs:
        for name in job.outputs.values():
            if (path := os.path.realpath(out / name)) in sources:
                raise click.ClickException(
                    f"--out: the result for {job.source} would replace the image {sources[path]}; "
                    "give another folder"
                )


def pair_with(
    plan: Plan, folder: Path, option: str = "--clean", one: str = "a noisy one"
) -> dict[Path, Path]:
    """Return the clean image of each noisy one: the one in a folder with the same name.

    Suffixes do not matter, and with several folders of noisy images the clean ones are in folders
    of the same names. `option` has named the folder, `one` is what an image of the plan is called.
    """
    from logsuper.io import find_images

    stems: dict[Path, dict[str, list[Path]]] = {}
    pairs: dict[Path, Path] = {}
    for job, below in zip(plan.jobs, _folders(plan), strict=True):
        place = folder / below
        if place not in stems:
            stems[place] = {}
            for file in find_images(place) if place.is_dir() else []:
                stems[place].setdefault(file.stem, []).append(file)
        found = stems[place].get(job.source.stem, [])
        if len(found) > 1:
            raise click.ClickException(
                f"{option}: {found[0]} and {found[1]} both have the name of {job.source}; keep one"
            )
        if found:
            pairs[job.source] = found[0]
    if not pairs:
        raise click.ClickException(
            f"{option}: no image in {folder} has the name of {one} (suffixes do not matter)"
        )
    return pairs
