"""Files that are whole or absent, and safe to read whoever wrote them."""

from __future__ import annotations

import io
import json
import math
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["atomic_write", "load_arrays", "save_arrays"]

_HEADER = "header"

# Kinds of dtype that a file may hold: no text, no objects.
_NUMBERS = "biuf"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` only when all went well.

    The bytes go to a temporary file in the same folder, which is renamed over `path` at the end.
    After an exception, or a crash, `path` is what it was before. Missing parent folders are made.

    Parameters
    ----------
    path : str or path
        Where the file shall appear. A symbolic link is followed: what it points to is replaced.

    Yields
    ------
    BinaryIO
        The open file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "new" / "note.txt") as file:
    ...         _ = file.write(b"all or nothing")
    ...     (Path(folder) / "new" / "note.txt").read_text()
    'all or nothing'
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise IsADirectoryError(f"path: {target} is a folder; give the name of a file in it")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile: its files are private to the owner, and would stay so after the rename.
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            part.chmod(target.stat().st_mode & 0o7777)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def save_arrays(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write arrays and a header to one file, which `load_arrays` and `numpy.load` can read.

    Parameters
    ----------
    path : str or path
        Written atomically, under exactly this name.
    kind : str
        What the file is, such as "model".
    version : int
        Of the format of this kind; to be raised when older readers would misread a file.
    header : mapping
        What JSON can hold: text, numbers (NaN and infinity too), lists, dictionaries.
    arrays : mapping of str to ndarray
        Of booleans or real numbers. The name "header" is taken.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.npz"
    ...     save_arrays(path, "model", 1, {"noise": 0.1}, {"t": np.arange(3.0)})
    ...     load_arrays(path, "model", 1)
    ({'noise': 0.1}, {'t': array([0., 1., 2.])})
    """
    for name, array in arrays.items():
        if name == _HEADER:
            raise ValueError(f"arrays must not use the name {name!r}")
        if array.dtype.kind not in _NUMBERS:
            raise TypeError(f"arrays[{name!r}] has dtype {array.dtype}; a file holds numbers only")
    text = json.dumps(
        {"kind": kind, "version": version, "header": dict(header), "arrays": list(arrays)}
    )
    members = {_HEADER: np.frombuffer(text.encode(), dtype=np.uint8), **arrays}
    with atomic_write(path) as file:
        np.savez(file, **members)  # type: ignore[arg-type]


def load_arrays(
    path: str | os.PathLike[str], kind: str, version: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `save_arrays` wrote; nothing in the file is run, and no more memory used than it.

    Parameters
    ----------
    path : str or path
    kind : str
        What the file must be.
    version : int
        The newest version of this kind that the caller understands.

    Returns
    -------
    header : dict
    arrays : dict of str to ndarray

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is of another kind, newer, truncated or corrupted.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.npz"
    ...     save_arrays(path, "model", 2, {}, {})
    ...     try:
    ...         load_arrays(path, "model", 1)
    ...     except ValueError as error:
    ...         print(str(error).replace(str(path), "model.npz"))
    model.npz: version 2 of a model, written by a newer logsuper (this one reads 1); upgrade
    """
    with open(path, "rb") as file:
        try:
            about, arrays = _read_archive(file)
            found, number, header = about["kind"], about["version"], about["header"]
            if not (
                isinstance(found, str) and isinstance(number, int) and isinstance(header, dict)
            ):
                raise ValueError("its header is malformed")
            if sorted(about["arrays"]) != sorted(arrays):
                raise ValueError("an array is missing")
        except Exception as error:  # the parsers raise all kinds on bytes that are not theirs
            raise ValueError(
                f"{path}: not a file of logsuper, or truncated or corrupted ({error})"
            ) from None
    if found != kind:
        raise ValueError(f"{path}: a {found} of logsuper, not a {kind}")
    if number > version:
        raise ValueError(
            f"{path}: version {number} of a {kind}, written by a newer logsuper "
            f"(this one reads {version}); upgrade"
        )
    return header, arrays


def _read_archive(file: BinaryIO) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of an archive whose members are stored as they are."""
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        # Without compression a small file cannot ask for much memory.
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it is compressed")
        if sum(member.file_size for member in members) > size:
            raise ValueError("it claims to hold more bytes than it has")
        # A member is parsed after it was read to its end, where its checksum is compared.
        arrays = {m.filename.removesuffix(".npy"): _parse(archive.read(m)) for m in members}
    about = json.loads(arrays.pop(_HEADER).tobytes())
    return about, arrays


def _parse(data: bytes) -> NDArray[Any]:
    """Return the array of a .npy file of numbers, version 1.0."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("an array is of an unknown version")
    shape, columns_first, dtype = np.lib.format.read_array_header_1_0(stream)
    rest = len(data) - stream.tell()
    if dtype.kind not in _NUMBERS or math.prod(shape) * dtype.itemsize != rest:
        raise ValueError("an array is not made of numbers, or not of as many as it claims")
    flat = np.frombuffer(data, dtype=dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if columns_first else "C").copy()
