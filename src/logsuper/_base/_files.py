"""Files that are written atomically and are safe to read, whoever wrote them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import re
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

try:
    import fcntl
except ImportError:  # Windows: temporary files of killed processes are not removed there
    fcntl = None  # type: ignore[assignment]

_HEADER = "header"

# Kinds of dtype that a file may contain: numbers and booleans, no text, no objects.
_NUMBERS = "biuf"

# A file ends with this marker and the 64 hexadecimal digits of the SHA-256 checksum of all bytes
# before the digits. They are stored as the comment of the zip archive, so `numpy.load` works too.
_SEAL = b"sha256 "
_DIGITS = 64

# Names of temporary files, by which those of killed processes are recognised.
_PART = re.compile(r"\.[0-9a-f]{16}\.logsuper\.part")

# Valid names of a kind of file; other text from a file is not repeated in error messages.
_KIND = re.compile(r"[a-z_]{1,40}")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces `path` only if no exception is raised.

    The bytes go to a temporary file in the same folder, which is renamed over `path` at the end.
    After an exception or a crash, `path` is unchanged. Missing parent folders are created.
    Temporary files that killed processes have left in the folder are removed.

    Parameters
    ----------
    path : str or path
        File to write or replace. If it is a symbolic link, the file it points to is replaced.

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
    _remove_orphans(target.parent)
    part, file = _open_part(target.parent)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if target.exists():
                part.chmod(target.stat().st_mode & 0o7777)
            if fcntl is not None:
                os.replace(part, target)  # still locked, so that it is not removed as an orphan
        if fcntl is None:
            os.replace(part, target)  # Windows does not rename open files
    finally:
        part.unlink(missing_ok=True)


def _open_part(folder: Path) -> tuple[Path, BinaryIO]:
    """Return a new temporary file, locked until it is closed."""
    while True:
        # Not tempfile: its files are readable by the owner only, and stay so after the rename.
        part = folder / f".{secrets.token_hex(8)}.logsuper.part"
        file = open(part, "x+b")
        if fcntl is None:
            return part, file
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if part.exists():
            return part, file
        file.close()  # removed as an orphan between its creation and the lock


def _remove_orphans(folder: Path) -> None:
    """Remove temporary files of killed processes: the lock on a file ends with its process."""
    if fcntl is None:
        return
    orphans: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        orphans += [entry.path for entry in entries if _PART.fullmatch(entry.name)]
    for path in orphans:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if in use
                os.unlink(path)
            finally:
                os.close(descriptor)


def save_arrays(
    path: str | os.PathLike[str] | BinaryIO,
    kind: str,
    version: int,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write arrays and a header to one file, which `load_arrays` and `numpy.load` can read.

    Parameters
    ----------
    path : str, path or binary file
        File to write, atomically; no suffix is added. An open file must be empty, and open for
        reading too.
    kind : str
        Kind of file, such as "model".
    version : int
        Version of the format of this kind; raise it when older readers would misread a file.
    header : mapping
        Values that JSON can represent: text, numbers (including NaN and infinity), lists,
        dictionaries.
    arrays : mapping of str to ndarray
        Arrays of booleans or real numbers. The name "header" is reserved.

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
            raise TypeError(f"arrays[{name!r}] has dtype {array.dtype}; files hold numbers only")
    about = {
        "kind": kind,
        "version": version,
        "checksum": "sha256",
        "header": dict(header),
        "arrays": list(arrays),
    }
    text = json.dumps(about).encode()
    members = {_HEADER: np.frombuffer(text, dtype=np.uint8), **arrays}
    if not isinstance(path, str | os.PathLike):
        return _write_archive(path, members)
    with atomic_write(path) as file:
        _write_archive(file, members)


def load_arrays(
    path: str | os.PathLike[str], kind: str, version: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a file written by `save_arrays`; no code in the file is executed.

    Time and memory are proportional to the actual size of the file, whatever sizes it states. A
    file in which any byte has changed is refused because its checksum does not match. Older files
    without this checksum are still read; zip's own checksum of each array is verified then.

    Parameters
    ----------
    path : str or path
    kind : str
        Required kind of file.
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
            sealed = _check_seal(file)
            about, arrays = _read_archive(file)
            found, number, header = about["kind"], about["version"], about["header"]
            if not (
                isinstance(found, str)
                and _KIND.fullmatch(found)
                and type(number) is int
                and 0 <= number < 2**31
                and isinstance(header, dict)
            ):
                raise ValueError("its header is malformed")
            if sorted(about["arrays"]) != sorted(arrays):
                raise ValueError("an array is missing")
            if "checksum" in about and not sealed:
                raise ValueError("its checksum is missing")
        except Exception as error:  # zipfile, numpy and json raise many types on corrupt bytes
            raise ValueError(
                f"{path}: not a file of logsuper, or truncated or corrupted ({str(error)[:200]})"
            ) from None
    if found != kind:
        raise ValueError(f"{path}: a {found} of logsuper, not a {kind}")
    if number > version:
        raise ValueError(
            f"{path}: version {number} of a {kind}, written by a newer logsuper "
            f"(this one reads {version}); upgrade"
        )
    return header, arrays


def _write_archive(file: BinaryIO, members: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as `numpy.savez` does, followed by the checksum of all bytes."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
        archive.comment = _SEAL + b"0" * _DIGITS
    end = file.seek(0, os.SEEK_END) - _DIGITS
    digits = _checksum(file, end)
    file.seek(end)
    file.write(digits)


def _check_seal(file: BinaryIO) -> bool:
    """Return whether a file ends with a checksum; raise a ValueError if it does not match."""
    end = file.seek(0, os.SEEK_END) - _DIGITS
    if end < len(_SEAL):
        return False
    file.seek(end - len(_SEAL))
    if file.read(len(_SEAL)) != _SEAL:
        return False
    if file.read(_DIGITS) != _checksum(file, end):
        raise ValueError("its checksum does not match its contents")
    return True


def _checksum(file: BinaryIO, end: int) -> bytes:
    """Return the hexadecimal digits of the checksum of the first `end` bytes of a file."""
    file.seek(0)
    digest = hashlib.sha256()
    while end > 0 and (block := file.read(min(end, 1 << 20))):
        digest.update(block)
        end -= len(block)
    return digest.hexdigest().encode()


def _read_archive(file: BinaryIO) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of an archive without compression."""
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        # Without compression a small file cannot ask for much memory.
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it is compressed")
        if sum(member.file_size for member in members) > size:
            raise ValueError("it claims to hold more bytes than it has")
        # A member is read to its end, where zip verifies its checksum, before it is parsed.
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
        raise ValueError("an array does not hold numbers, or not as many as its shape says")
    flat = np.frombuffer(data, dtype=dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if columns_first else "C").copy()
