"""Cleaning files with a fitted denoiser: some at a time, in bounded memory, each written whole."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from logsuper.cli._certify import is_doubtful
from logsuper.cli._console import one_line
from logsuper.cli._folder import Failure, Job
from logsuper.cli._ledger import Ledger, digest_of, key_of
from logsuper.cli._observed import Observed, Reading, read_observed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logsuper.estimators import MaskDenoiser

__all__ = ["Cleaned", "Cleaner"]

# Pixels that are cleaned at once; a larger file is cleaned on its own.
_BATCH = 1 << 20
# Longest side of an image on a sheet.
_SHOWN = 440


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
    warnings : list of str
        What the denoiser warned of.
    """

    denoiser: MaskDenoiser
    key: str
    reading: Reading
    out: Path
    ledger: Ledger
    jobs: int
    warnings: list[str] = dataclasses.field(default_factory=list)

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
        done = 0
        batch: list[tuple[Job, Observed]] = []
        for job in jobs:
            if not force and (found := finished(job, self.key, self.reading, self.ledger)):
                done += job.info.size
                show(done)
                yield Cleaned(job.source, self.out / job.outputs["mask"], found, before=True)
                continue
            try:
                seen = read_observed(job.source, job.info, self.reading)
            except (OSError, ValueError, MemoryError) as error:
                done += job.info.size
                yield Failure(job.source, str(error))
                continue
            batch.append((job, seen))
            if sum(one.size for _, one in batch) >= _BATCH:
                for job_, result in self._clean_batch(batch):
                    done += job_.info.size
                    show(done)
                    yield result
                batch = []
        for job_, result in self._clean_batch(batch):
            done += job_.info.size
            show(done)
            yield result

    def _clean_batch(
        self, batch: list[tuple[Job, Observed]]
    ) -> Iterator[tuple[Job, Cleaned | Failure]]:
        """Clean some files together; if that fails, each alone, to find the one that fails."""
        if not batch:
            return
        try:
            found = self._predict([part for _, seen in batch for part in seen.parts])
        except (ValueError, MemoryError) as error:
            if len(batch) == 1:
                job = batch[0][0]
                yield job, Failure(job.source, f"{job.source}: {_without_name(error)}")
                return
            for one in batch:
                yield from self._clean_batch([one])
            return
        for job, seen in batch:
            count = len(seen.parts)
            parts, found = found[:count], found[count:]
            try:
                yield job, self._finish(job, seen, parts)
            except (ValueError, MemoryError) as error:
                yield job, Failure(job.source, f"{job.source}: {_without_name(error)}")

    def _predict(self, parts: list[NDArray[Any]]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return the mask and the probabilities of each image."""
        from logsuper.learning import LEARNERS

        self.denoiser.set_params(n_jobs=self.jobs)
        decode = self.denoiser.decode
        if decode == "auto":
            decode = LEARNERS[self.denoiser.learner_].decode
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            chances = self.denoiser.predict_proba(parts)
            masks = [p > 0.5 for p in chances] if decode == "mean" else self.denoiser.predict(parts)
        texts = [str(one.message) for one in said]
        self.warnings += [text for text in dict.fromkeys(texts) if text not in self.warnings]
        return list(zip(masks, chances, strict=True))

    def _finish(
        self, job: Job, seen: Observed, parts: list[tuple[NDArray[Any], NDArray[Any]]]
    ) -> Cleaned:
        """Write all results for a file, the mask last."""
        import numpy as np

        mask = seen.assemble([one for one, _ in parts])
        chance = seen.assemble([one for _, one in parts])
        figures = _figures(self.denoiser, seen, mask, chance)
        key = key_of(self.key, dataclasses.astuple(self.reading), digest_of(job.source))
        contents: dict[str, Callable[[str, BinaryIO], object]] = {}
        if "probabilities" in job.outputs:
            contents["probabilities"] = _image(np.rint(65535.0 * chance).astype(np.uint16))
        if "uncertain" in job.outputs:
            doubtful = seen.assemble(
                [is_doubtful(self.denoiser, part, self.jobs) for part in seen.parts]
            )
            figures["uncertain"] = int(np.count_nonzero(doubtful))
            contents["uncertain"] = _image(np.where(doubtful, 255, 0).astype(np.uint8))
        if "compare" in job.outputs:
            contents["compare"] = _sheet(job.source.name, seen, mask, chance)
        contents["mask"] = _image(seen.as_pixels(mask))
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


def refuse_strangers(
    jobs: Sequence[Job], model: str, reading: Reading, ledger: Ledger, force: bool
) -> None:
    """Refuse to write over files that are not from the same command.

    A job with all its results finished is skipped later; of one with some of them, those are
    written again, with the same bytes.
    """
    for job in jobs:
        there = [name for name in job.outputs.values() if (ledger.out / name).exists()]
        key = key_of(model, dataclasses.astuple(reading), digest_of(job.source)) if there else ""
        for name in there:
            if (ledger.out / name).is_dir():
                raise click.ClickException(f"--out: {ledger.out / name} is a folder")
            if not force and ledger.finished(name, key) is None:
                raise click.ClickException(
                    f"--out: {ledger.out / name} is there already, and not from this command with "
                    "these settings; give another folder, or --force to replace it"
                )


def _without_name(error: BaseException) -> str:
    """Return a message of the denoiser without the place in a list that users do not see."""
    import re

    return re.sub(r"^noisy\[\d+\] ", "it ", str(error))


def _figures(
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


def _image(array: NDArray[Any]) -> Callable[[str, BinaryIO], object]:
    from logsuper.io import encode_image

    return lambda name, file: encode_image(file, name, array)


def _sheet(
    title: str, seen: Observed, mask: NDArray[Any], chance: NDArray[Any]
) -> Callable[[str, BinaryIO], object]:
    """Return a picture: before, after, how sure; of a volume its middle slice."""
    from logsuper.report import sheet

    middle = len(mask) // 2 if mask.ndim == 3 else None
    before = seen.assemble(list(seen.parts))
    shown = [image if middle is None else image[middle] for image in (before, mask, chance)]
    step = -(-max(shown[0].shape) // _SHOWN)
    before, after, sure = (image[::step, ::step] for image in shown)
    if not seen.binary:
        low, high = float(_finite(before).min()), float(_finite(before).max())
        before = (before - low) / ((high - low) or 1.0)
    where = "" if middle is None else f", slice {middle + 1} of {len(mask)}"
    panels = [
        sheet.grey(1.0 - before, "before"),  # white is one, as in the files
        sheet.grey(1.0 - after, "after"),
        sheet.doubt(sure, "doubt (white: none)"),
    ]
    return lambda name, file: file.write(sheet.draw([panels], [f"{one_line(title)}{where}"]))


def _finite(values: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.asarray(values[values == values])
