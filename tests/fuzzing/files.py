"""Hostile files: models, checkpoints, parts of stored runs, UAI models and evidence, pictures.

Most are damaged; some are well formed and lie. A file with a checksum that was damaged must be
refused, or else give what it gave before.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import logsuper as ls
from logsuper import learning
from logsuper._base._files import load_arrays, save_arrays
from logsuper.datasets import load_weizmann
from logsuper.experiments._job import Partial
from logsuper.io import inspect_image, read_image, write_image
from tests.fuzzing import checks, mutations
from tests.fuzzing.calls import has_nan
from tests.fuzzing.hostile import Rng, pick
from tests.fuzzing.outcomes import CLEAR, RESULT, WRONG, Verdict, shorten

# For one file; memory on top of what the library takes itself.
CPU_SECONDS, WALL_SECONDS, MEGABYTES = 5.0, 60.0, 512

_SHAPE = (3, 4)


@dataclasses.dataclass
class FileCase:
    """A file, and what reads it.

    Attributes
    ----------
    name : str
        Of the file.
    data : bytes
    read : callable
        Is given the path, and returns what came of it.
    expected : object, optional
        What came of the file before it was damaged; None for files without a checksum, or lies.
    """

    name: str
    data: bytes
    read: Callable[[Path], Any]
    expected: Any = None

    def describe(self) -> str:
        """Return the file."""
        return f"{self.name}, {len(self.data)} bytes: {shorten(self.data, 600)}"

    def run(self) -> Verdict:
        """Read it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / self.name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(self.data)
            found = self.read(path)
        if found is None:
            return Verdict(CLEAR, "not believed")
        if has_nan(found):
            return Verdict(WRONG, f"NaN in {shorten(found)}")
        if self.expected is not None and not _same(found, self.expected):
            return Verdict(WRONG, f"accepted, with other contents: {shorten(found)}")
        return Verdict(RESULT)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)


# -------------------------------------------------------------------------- files with a checksum


@functools.cache
def _models() -> tuple[bytes, ...]:
    """Return files of a denoiser and of densities with all functions that a file can hold."""
    rng = np.random.default_rng(0)
    clean = np.zeros((4, *_SHAPE))
    clean[:, :2, 1:] = 1.0
    noisy = np.where(rng.random(clean.shape) < 0.15, 1 - clean, clean)
    X = rng.integers(0, 2, (6, 4))
    functions = [
        ls.Cut(4, [(0, 1), (1, 2)], [1.0, 2.0]) + ls.Modular([0.1, 0.2, 0.3, 0.4]),
        ls.ConcaveCardinality([0.0, 1.0, 1.5], n=4, subset=[0, 2]),
    ]
    fitted = (
        ls.MaskDenoiser(0.15, max_iter=2, n_samples=4, context=1).fit(noisy, clean),
        ls.MaskDenoiser("gaussian", modular="shared", max_iter=2, n_samples=4, context=0).fit(
            clean + 0.1 * rng.normal(size=clean.shape), clean
        ),
        ls.LogSupermodularDensity(max_iter=2).fit(X),
        ls.LogSupermodularDensity(functions, max_iter=2).fit(X),
        ls.LogSupermodularDensity(n_components=2, max_iter=2).fit(X),
    )
    return tuple(_saved(model.save) for model in fitted)


def _saved(save: Callable[[Path], None]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "file")
        return (Path(folder) / "file").read_bytes()


def _sealed(rng: Rng, data: bytes, kind: str) -> bytes:
    """Return a file with a right checksum, and wrong contents."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        header, arrays = load_arrays(path, kind, 2**31 - 1)
        if arrays and rng.integers(2):
            name = pick(rng, sorted(arrays))
            arrays[name] = mutations.lie_in_array(rng, arrays[name])
        else:
            changed = mutations.lie(rng, header)
            header = changed if isinstance(changed, dict) else {}
        save_arrays(path, kind, pick(rng, (1, 1, 1, 1, 2**31 - 1, 0)), header, arrays)
        return path.read_bytes()


def _damaged(rng: Rng, data: bytes, kind: str, intact: bool) -> tuple[bytes, bool]:
    """Return a file, and whether its contents should be those of before."""
    if intact:
        return data, True
    how = int(rng.integers(4))
    if how == 0:
        return _sealed(rng, data, kind), False
    if how == 1:
        return mutations.bomb(rng, data), False
    return mutations.damage_bytes(rng, data), True


def _read_model(path: Path) -> Any:
    """Return what is in a model, after it has been used."""
    model = ls.load_model(path)
    if isinstance(model, ls.MaskDenoiser):
        x = np.zeros((1, *_SHAPE))
        x[0, 0] = 1.0
        found = model.predict_proba(x), model.predict(x)
        assert not checks.is_probabilities({}, found[0]) and not checks.is_bits({}, found[1])
    else:
        x = np.zeros((1, 4), np.uint8)
        found = model.score_samples(x), model.sample(1, random_state=0)
    _, arrays = load_arrays(path, "model", 2**31 - 1)
    return {**arrays, "found": found}


def _model(rng: Rng, intact: bool) -> FileCase:
    original = pick(rng, _models())
    data, same = _damaged(rng, original, "model", intact)
    expected = _expected(original, "model.npz", _read_model) if same else None
    return FileCase("model.npz", data, _read_model, expected)


@functools.cache
def _expected(data: bytes, name: str, read: Callable[[Path], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        return read(path)


@functools.cache
def _examples() -> tuple[learning.Examples, learning.Penalty]:
    x = np.zeros((4, *_SHAPE))
    x[:, :2, 1:] = 1.0
    data = learning.make_examples(ls.grid_cuts(_SHAPE), labels=x, modular="shared")
    return data, learning.Penalty.of(data.layout, alpha=0.1, modular=0.1)


def _resume(path: Path) -> Any:
    """Go on from a checkpoint to the end."""
    options: dict[str, Any] = {"max_iter": 6, "n_samples": 2, "tol": 0.0}
    return learning.logistic(*_examples(), checkpoint=path, **options).theta


class _StopError(Exception):
    pass


@functools.cache
def _checkpoints() -> tuple[bytes, ...]:
    """Return checkpoints of a run that is half done, and of one that is done."""

    def stop(record: Any) -> None:
        raise _StopError

    found = []
    for callback in (stop, None):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "fit.npz"
            try:
                learning.logistic(
                    *_examples(),
                    checkpoint=path,
                    max_iter=6,
                    n_samples=2,
                    tol=0.0,
                    callback=callback,
                )
            except _StopError:
                pass
            found.append(path.read_bytes())
    return tuple(found)


def _checkpoint(rng: Rng, intact: bool) -> FileCase:
    original = pick(rng, _checkpoints())
    data, same = _damaged(rng, original, "checkpoint", intact)
    expected = _expected(original, "fit.npz", _resume) if same else None
    return FileCase("fit.npz", data, _resume, expected)


_ARGUMENTS = {"images": "abc", "seeds": [0, 1]}
_NUMBERS = np.array([0.125, 17.25, -3.0, 1e-3])


@functools.cache
def _part_file() -> tuple[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        store = Partial(folder, _ARGUMENTS)
        store.store("part", _NUMBERS)
        path = store.path("part")
        return path.name, path.read_bytes()


def _read_part(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*computed again")
        return Partial(path.parent, _ARGUMENTS).load("part", _NUMBERS.shape)


def _part(rng: Rng, intact: bool) -> FileCase:
    name, original = _part_file()
    if intact:
        return FileCase(name, original, _read_part, _NUMBERS)
    if original.startswith(b"PK") and rng.integers(4) == 0:
        return FileCase(name, mutations.bomb(rng, original), _read_part)
    damage = mutations.damage_text if rng.integers(2) else mutations.damage_bytes
    return FileCase(name, damage(rng, original), _read_part, _NUMBERS)


# ------------------------------------------------------------------------------------ other files

_UAI = (
    b"MARKOV\n3\n2 2 2\n5\n1 0\n1 1\n2 0 1\n2 1 2\n2 0 1\n"
    b"2\n 1.0 2.5\n2\n 0.5 1.0\n4\n 2.0 1.0\n 1.0 2.0\n4\n 3.0 1.0\n 1.0 1.5\n4\n 2 1 1 2\n",
    b"MARKOV\n4\n2 2 2 2\n3\n2 0 3\n2 3 2\n1 1\n\n4\n 7 1 1 3\n\n4\n 1 .5 .25 1\n\n2\n 0 1\n",
    b"MARKOV 3 2 2 2 2 3 0 1 2 0 8 1 1 1 1 1 1 1 1 1 2.5",
)
_EVIDENCE = (b"2\n0 1\n2 0\n", b"1\n2 0 1 2 0\n", b"0\n")


def _read_uai(path: Path) -> Any:
    model = ls.read_uai(path)
    return model.log_partition().value if model.n <= 12 else 0.0


def _uai(rng: Rng, intact: bool) -> FileCase:
    data = pick(rng, _UAI)
    return FileCase("model.uai", data if intact else mutations.damage_text(rng, data), _read_uai)


def _read_evidence(path: Path) -> Any:
    model = path.with_name("model.uai")
    model.write_bytes(_UAI[0])
    return ls.read_uai(model, path).log_partition().value


def _evidence(rng: Rng, intact: bool) -> FileCase:
    data = pick(rng, _EVIDENCE)
    return FileCase(
        "model.uai.evid", data if intact else mutations.damage_text(rng, data), _read_evidence
    )


@functools.cache
def _pictures() -> tuple[bytes, ...]:
    from PIL import Image

    grey = (np.add.outer(np.arange(15), np.arange(20)) * 7).astype(np.uint8)
    found = []
    for kind, mode in (("JPEG", "L"), ("JPEG", "RGB"), ("PNG", "L"), ("PNG", "RGBA")):
        file = io.BytesIO()
        Image.fromarray(grey).convert(mode).save(file, kind)
        found.append(file.getvalue())
    return tuple(found)


def _read_picture(path: Path) -> Any:
    images = load_weizmann(path.parent, (4, 5)).images
    assert not checks.is_bits({}, images)
    return images


def _picture(rng: Rng, intact: bool) -> FileCase:
    data = pick(rng, _pictures())
    if not intact:
        huge = rng.integers(6) == 0
        data = (mutations.inflate_picture if huge else mutations.damage_bytes)(rng, data)
    return FileCase("horse001.jpg", data, _read_picture)


@functools.cache
def _images() -> dict[str, bytes]:
    """Return image files of all formats, by their suffixes."""
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 256, (5, 6)).astype(np.uint8)
    colors = rng.integers(0, 256, (5, 6, 3)).astype(np.uint8)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("png", "bmp", "pgm", "tif", "npy"):
            write_image(Path(folder) / f"x.{suffix}", grey)
        write_image(Path(folder) / "bits.png", grey > 99)
        write_image(Path(folder) / "wide.png", 257 * grey.astype(np.uint16))
        write_image(Path(folder) / "color.png", colors, color=True)
        write_image(Path(folder) / "stack.ome.tif", np.stack([grey] * 3))
        write_image(Path(folder) / "float.tif", grey / 7.0)
        for name, mode in (("x.jpg", "L"), ("cmyk.jpg", "CMYK"), ("x.gif", "P"), ("a.png", "LA")):
            Image.fromarray(colors).convert(mode).save(Path(folder) / name)
        Image.fromarray(grey).save(Path(folder) / "lzw.tif", compression="tiff_lzw")
        for path in sorted(Path(folder).iterdir()):
            found[path.name] = path.read_bytes()
    return found


def _read_any(path: Path) -> Any:
    """Read an image in every way; what is said of it without decoding must be true."""
    info = inspect_image(path)
    for options in ({}, {"color": True}, {"missing": "alpha"}, {"palette": "indices"}):
        try:
            pixels = read_image(path, **options)
        except ValueError:
            continue
        assert pixels.size and pixels.ndim in (2, 3, 4)
        if not options:
            assert pixels.shape == info.shape
    return read_image(path).shape


def _image(rng: Rng, intact: bool) -> FileCase:
    names = ("x.png", "x.bmp", "x.pgm", "x.tif", "x.npy", "stack.ome.tif", "float.tif", "x.jpg")
    name = pick(rng, names if intact else sorted(_images()))
    data = _images()[name]
    if not intact:
        huge = rng.integers(6) == 0 and name.endswith(("png", "jpg"))
        data = (mutations.inflate_picture if huge else mutations.damage_bytes)(rng, data)
    return FileCase(name, data, _read_any)


TARGETS = {
    "model": _model,
    "checkpoint": _checkpoint,
    "stored part": _part,
    "UAI model": _uai,
    "UAI evidence": _evidence,
    "picture": _picture,
    "image": _image,
}
