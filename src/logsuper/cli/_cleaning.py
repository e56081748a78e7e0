"""Cleaning files with a fitted denoiser: some at a time, in bounded memory, each written whole."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from logsuper.cli._folder import Failure, Job
from logsuper.cli._ledger import Ledger, digest_of, key_of
from logsuper.cli._observed import Observed, Reading, read_observed
from logsuper.cli._sheets import draw_sheet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logsuper.estimators import MaskDenoiser

# Pixels that are cleaned at once; a larger file is cleaned on its own.
_BATCH = 1 << 20


@dataclasses.dataclass(frozen=True)
class Cleaned:
    """What came of one file.

    Attributes
    ----------
    source : Path
    output : Path
    figures : dict
        Numbers about it, as JSON can hold them: counts of pixels, and of pairs of neighbours.
    before : bool
        Whether an earlier run had cleaned it.
    """

    source: Path
    output: Path
    figures: dict[str, Any]
    before: bool = False


@dataclasses.dataclass(eq=False)
class Cleaner:
    """Cleans files into a folder.

    Attributes
    ----------
    denoiser : MaskDenoiser
    key : str
        Stands for the model: the same key, the same results.
    reading : Reading
    out : Path
    ledger : Ledger
    jobs : int
        Threads.
    """

    denoiser: MaskDenoiser
    key: str
    reading: Reading
    out: Path
    ledger: Ledger
    jobs: int

    def clean(
        self, jobs: Sequence[Job], show: Callable[[int], None], force: bool
    ) -> Iterator[Cleaned | Failure]:
        """Yield what came of each file, when all its results are written.

        Parameters
        ----------
        jobs : sequence of Job
        show : callable
            Is given how many pixels are done.
        force : bool
            Whether finished files are cleaned again.
        """
        return counted(jobs, self._stream(jobs, force), show)

    def _stream(self, jobs: Sequence[Job], force: bool) -> Iterator[Cleaned | Failure]:
        """Yield the results; files are read until there are enough pixels for a batch."""
        batch: list[tuple[Job, Observed]] = []
        for job in jobs:
            if not force and (found := finished(job, self.key, self.reading, self.ledger)):
                yield Cleaned(job.source, self.out / job.outputs["mask"], found, before=True)
                continue
            try:
                seen = read_observed(job.source, job.info, self.reading)
                self._check_kind(job, seen)
                batch.append((job, seen))
            except (OSError, ValueError, MemoryError) as error:
                yield Failure(job.source, str(error))
            if sum(seen.size for _, seen in batch) >= _BATCH:
                yield from self._clean_batch(batch)
                batch = []
        yield from self._clean_batch(batch)

    def _check_kind(self, job: Job, seen: Observed) -> None:
        """Refuse grey levels for a model of flips, and a mask for a model of grey levels."""
        if self.denoiser.channel_.binary and not seen.binary:
            raise ValueError(
                f"{job.source}: has grey levels, but the model was learned from masks of two; "
                "say --threshold otsu"
            )
        if seen.binary and self.denoiser.channel_.kind == "gaussian":
            raise ValueError(
                f"{job.source}: is a mask of two levels, but the model was learned from grey images"
            )

    def _clean_batch(self, batch: list[tuple[Job, Observed]]) -> Iterator[Cleaned | Failure]:
        """Clean some files together; if that fails, each alone, to find the one that fails."""
        if not batch:
            return
        try:
            found = self._predict([part for _, seen in batch for part in seen.parts])
        except (ValueError, MemoryError) as error:
            if len(batch) == 1:
                yield _blame(batch[0][0], error)
                return
            for one in batch:
                yield from self._clean_batch([one])
            return
        for job, seen in batch:
            count = len(seen.parts)
            parts, found = found[:count], found[count:]
            try:
                yield self._finish(job, seen, parts)
            except (ValueError, MemoryError) as error:
                yield _blame(job, error)

    def _predict(self, parts: list[NDArray[Any]]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return the mask and the probabilities of each image."""
        from logsuper.learning import LEARNERS

        self.denoiser.set_params(n_jobs=self.jobs)
        decode = self.denoiser.decode
        if decode == "auto":
            decode = LEARNERS[self.denoiser.learner_].decode
        chances = self.denoiser.predict_proba(parts)
        masks = [p > 0.5 for p in chances] if decode == "mean" else self.denoiser.predict(parts)
        return list(zip(masks, chances, strict=True))

    def _finish(
        self, job: Job, seen: Observed, parts: list[tuple[NDArray[Any], NDArray[Any]]]
    ) -> Cleaned:
        """Write all results for a file, the mask last."""
        import numpy as np

        from logsuper.io import encode_zarr

        mask = seen.assemble([one for one, _ in parts])
        chance = seen.assemble([one for _, one in parts])
        figures = measure(self.denoiser, seen, mask, chance)
        key = key_of(self.key, dataclasses.astuple(self.reading), digest_of(job.source))
        contents: dict[str, Callable[[str, Any], object]] = {}
        if "probabilities" in job.outputs:
            contents["probabilities"] = _image(np.rint(65535.0 * chance).astype(np.uint16))
        if "uncertain" in job.outputs:
            doubtful = seen.assemble([is_doubtful(self.denoiser, part) for part in seen.parts])
            figures["uncertain"] = int(np.count_nonzero(doubtful))
            contents["uncertain"] = _image(np.where(doubtful, 255, 0).astype(np.uint8))
        if "compare" in job.outputs:
            sheet = draw_sheet(job.source.name, seen, mask, chance)
            contents["compare"] = lambda name, file: file.write(sheet)
        pixels = seen.as_pixels(mask)
        if job.outputs["mask"].endswith(".zarr"):
            contents["mask"] = lambda name, folder: encode_zarr(folder, pixels)
        else:
            contents["mask"] = _image(pixels, seen.palette)
        for kind, encode in contents.items():
            name = job.outputs[kind]
            self.ledger.write(name, key, partial(encode, name), figures if kind == "mask" else {})
        return Cleaned(job.source, self.out / job.outputs["mask"], figures)


def finished(job: Job, model: str, reading: Reading, ledger: Ledger) -> dict[str, Any] | None:
    """Return the figures of a file if all its results are there, from the same settings."""
    if not all((ledger.out / name).exists() for name in job.outputs.values()):
        return None
    try:
        key = key_of(model, dataclasses.astuple(reading), digest_of(job.source))
        lines = {kind: ledger.finished(name, key) for kind, name in job.outputs.items()}
    except OSError:
        return None
    return None if None in lines.values() else lines["mask"]


def counted(
    jobs: Sequence[Job], results: Iterable[Cleaned | Failure], show: Callable[[int], None]
) -> Iterator[Cleaned | Failure]:
    """Yield the results of jobs; tell how many pixels are done before each."""
    sizes = {job.source: job.info.size for job in jobs}
    done = 0
    for result in results:
        done += sizes[result.source]
        show(done)
        yield result


def refuse_strangers(
    jobs: Sequence[Job], model: str, reading: Reading, ledger: Ledger, force: bool
) -> None:
    """Refuse to write over files that are not from the same command.

    A job with all its results finished is skipped later; of one with some of them, those are
    written again, with the same bytes.
    """
    strangers = []
    for job in jobs:
        there = [name for name in job.outputs.values() if (ledger.out / name).exists()]
        key = key_of(model, dataclasses.astuple(reading), digest_of(job.source)) if there else ""
        for name in there:
            if (ledger.out / name).is_dir() and not name.endswith(".zarr"):
                raise click.ClickException(f"--out: {ledger.out / name} is a folder")
            if not force and ledger.finished(name, key) is None:
                strangers.append(str(ledger.out / name))
    if strangers:
        first, count = strangers[0], len(strangers)
        are, them = (
            (f"{first} is", "it") if count == 1 else (f"{first} and {count - 1} more are", "them")
        )
        raise click.ClickException(
            f"--out: {are} there already, and not from this command with these settings; give "
            f"another folder, or --force to replace {them}"
        )


def _blame(job: Job, error: BaseException) -> Failure:
    """Return what the denoiser says of a file, without its place in a list."""
    reason = re.sub(r"^noisy\[\d+\] ", "it ", str(error)) or "there is not enough memory"
    return Failure(job.source, f"{job.source}: {reason}")


def _image(
    array: NDArray[Any], palette: NDArray[Any] | None = None
) -> Callable[[str, BinaryIO], object]:
    from logsuper.io import encode_image

    return lambda name, file: encode_image(file, name, array, palette=palette)


def is_doubtful(denoiser: MaskDenoiser, image: NDArray[Any]) -> NDArray[Any]:
    """Return the pixels whose certified interval of probability holds one half."""
    import numpy as np

    [lower], [upper] = denoiser.predict_interval([image])
    return np.asarray((lower <= 0.5) & (upper >= 0.5))


def measure(
    denoiser: MaskDenoiser, seen: Observed, mask: NDArray[Any], chance: NDArray[Any]
) -> dict[str, Any]:
    """Return sums over the pixels of a file, from which shares in all files are made."""
    import numpy as np
    from scipy.special import expit

    alone, noisy_pairs, pairs, noisy_differ, differ = 0.0, 0, 0, 0, 0
    observed, changed = 0, 0
    for part, clean in zip(seen.parts, mask if len(seen.parts) > 1 else [mask], strict=True):
        clean = np.asarray(clean).reshape(part.shape) > 0
        odds = denoiser.channel_.log_odds(part)
        there = part == part
        observed += int(np.count_nonzero(there))
        alone += float(expit(-np.abs(odds[there])).sum())
        guess = odds > 0
        changed += int(np.count_nonzero((guess != clean) & there))
        for axis in range(part.ndim):
            before, after = (np.diff(x.astype(np.int8), axis=axis) != 0 for x in (guess, clean))
            both = _pairs_seen(there, axis)
            noisy_pairs += int(np.count_nonzero(both))
            noisy_differ += int(np.count_nonzero(before & both))
            pairs += after.size
            differ += int(np.count_nonzero(after))
    return {
        "shape": list(seen.shape),
        "pixels": seen.size,
        "observed": observed,
        "changed": changed,
        "ones": int(np.count_nonzero(mask)),
        "wrong_before": alone,
        "wrong_after": float(np.minimum(chance, 1.0 - chance).sum()),
        "pairs": pairs,
        "pairs_differ": differ,
        "noisy_pairs": noisy_pairs,
        "noisy_pairs_differ": noisy_differ,
        "cut": seen.cut,
    }


def _pairs_seen(there: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return which pairs of neighbours along an axis were both observed."""
    import numpy as np

    first = np.take(there, range(there.shape[axis] - 1), axis=axis)
    second = np.take(there, range(1, there.shape[axis]), axis=axis)
    return np.asarray(first & second)


def total(files: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return shares over all pixels of all files, given the sums of each."""

    def add(name: str) -> float:
        numbers = (figures.get(name, 0) for figures in files)
        # figures of an earlier run come from a file, which may have been edited
        return float(sum(n for n in numbers if isinstance(n, int | float)))

    pixels, observed = add("pixels"), add("observed")
    if not pixels:
        return {}
    shares = {
        "pixels": int(pixels),
        "missing": 1.0 - observed / pixels,
        "changed": add("changed") / max(observed, 1.0),
        "wrong_before": add("wrong_before") / max(observed, 1.0),
        "wrong_after": add("wrong_after") / pixels,
        "neighbours_differ_before": add("noisy_pairs_differ") / max(add("noisy_pairs"), 1.0),
        "neighbours_differ_after": add("pairs_differ") / max(add("pairs"), 1.0),
    }
    if any("uncertain" in figures for figures in files):
        shares["uncertain"] = add("uncertain") / pixels
    return shares
