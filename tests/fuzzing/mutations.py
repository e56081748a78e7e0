"""Damage to files: bytes that flip, ends that are lost, numbers that lie, structures that swell."""

from __future__ import annotations

import copy
import io
import re
import struct
import zipfile
import zlib
from typing import Any

import numpy as np

from tests.fuzzing.hostile import NUMBERS, Rng, pick

_WORDS = (
    *("nan", "inf", "-inf", "-1", "0", "1", "2", "1e999", "1e-999", "1e308", "5e-324", "1_0"),
    *("99999999999999999999", "4294967296", "0x10", "", "x", "MARKOV", "BAYES", "\0", "\x85", "٣"),
)


def damage_bytes(rng: Rng, data: bytes) -> bytes:
    """Return bytes with one to three things wrong."""
    for _ in range(1 + int(rng.integers(3) == 0) + int(rng.integers(6) == 0)):
        data = _damage_once(rng, data)
    return data


def _damage_once(rng: Rng, data: bytes) -> bytes:
    if not data:
        return b"\0"
    at = int(rng.integers(len(data)))
    end = min(len(data), at + int(rng.integers(1, 64)))
    how = int(rng.integers(9))
    if how <= 2:
        return data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]
    if how == 3:
        return data[:at]
    if how == 4:
        return data[:at] + data[end:]
    if how == 5:
        return data[:end] + data[at:]
    if how == 6:
        return data[:at] + rng.bytes(end - at) + data[end:]
    if how == 7:
        number = pick(rng, (0, 1, 2**16 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1))
        return data[:at] + struct.pack("<Q", number)[: end - at] + data[end:]
    return data + rng.bytes(int(rng.integers(1, 200)))


def damage_text(rng: Rng, data: bytes) -> bytes:
    """Return a text file with a word, a digit or a line that should not be there; or its bytes."""
    how = int(rng.integers(7))
    words = re.split(rb"(\s+)", data)
    place = 2 * int(rng.integers((len(words) + 1) // 2))
    lines = data.splitlines(keepends=True) or [b"\n"]
    line = int(rng.integers(len(lines)))
    if how == 0:
        words[place] = pick(rng, _WORDS).encode()
    elif how == 1:
        digits = [i for i, c in enumerate(data) if chr(c).isdigit()] or [0]
        at = pick(rng, digits)
        return data[:at] + str(rng.integers(10)).encode() + data[at + 1 :]
    elif how == 2:
        lines.insert(line, lines[line] * int(rng.integers(1, 500)))
        return b"".join(lines)
    elif how == 3:
        del lines[line]
        return b"".join(lines)
    elif how == 4:
        other = 2 * int(rng.integers((len(words) + 1) // 2))
        words[place], words[other] = words[other], words[place]
    elif how == 5:
        words[place] = words[place] * int(rng.integers(2, 400))
    else:
        return damage_bytes(rng, data)
    return b"".join(words)


# ------------------------------------------------------------------------------------- well formed


def lie(rng: Rng, value: Any) -> Any:
    """Return a value that JSON can hold with one thing in it replaced, lost, doubled or nested."""
    value = copy.deepcopy(value)
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = pick(rng, sorted(value))
        how = int(rng.integers(8))
        if how == 0:
            del value[key]
        elif how == 1:
            value[pick(rng, ("", "is", "parts", "__class__", key + "_"))] = value.pop(key)
        else:
            value[key] = lie(rng, value[key])
        return value
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = int(rng.integers(len(value)))
        how = int(rng.integers(8))
        if how == 0:
            del value[at]
        elif how == 1:
            value.append(value[at])
        else:
            value[at] = lie(rng, value[at])
        return value
    if isinstance(value, str) and rng.random() < 0.5:
        return pick(rng, (*_KINDS, value + "x", value[:-1], "a0", "a1", "x" * 10_000))
    return pick(
        rng,
        (
            *(None, True, False, -1, 0, 1, 2**31, 10**9, 10**30, "", "x", [], {}, [[]], NUMBERS[0]),
            *(1e300, -1e300, float("inf"), [0] * 1000, {"is": "array", "parts": "a0"}),
            *({"is": pick(rng, _KINDS), "parts": {}}, _nested(int(rng.integers(10, 300)))),
        ),
    )


# What the parts of a model file may be, by name.
_KINDS = (
    *("array", "list", "tuple", "dict", "names", "parameters", "record", "sum", "modular"),
    *("cardinality", "cut", "grid", "flips", "asymmetric", "gaussian", "missing"),
)


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def lie_in_array(rng: Rng, array: np.ndarray) -> np.ndarray:
    """Return an array of numbers of another shape, type or content."""
    how = int(rng.integers(6))
    with np.errstate(all="ignore"):
        if how == 0 and array.size:
            other = array.astype(float)
            other.flat[rng.integers(other.size)] = pick(rng, NUMBERS)
            return other
        if how == 1 and array.size and array.dtype.kind in "iu":
            other = array.copy()
            other.flat[rng.integers(other.size)] = pick(rng, (0, 1, np.iinfo(array.dtype).max))
            return other
        if how == 2:
            return np.append(array.ravel(), array.ravel()[:1])
        if how == 3:
            return array[None]
        if how == 4:
            return array.astype(pick(rng, ("f4", "i1", "u8", "?", "f2", ">f8")))
    return np.empty(0, array.dtype)


def bomb(rng: Rng, data: bytes) -> bytes:
    """Return an archive with members that are compressed, doubled, renamed or beyond all bounds."""
    how = int(rng.integers(5))
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for member in old.infolist():
            kind = zipfile.ZIP_DEFLATED if how == 0 else zipfile.ZIP_STORED
            content = old.read(member)
            name = member.filename
            if how == 1 and rng.integers(2):
                name = pick(rng, ("../../x.npy", "/etc/x.npy", "header", "a" * 5000, "\n.npy"))
            if how == 2 and content.startswith(b"\x93NUMPY"):
                content = _claim(rng, content)
            if how == 3:
                content = bytes(200_000)
            new.writestr(name, content, kind)
        if how == 4:
            new.writestr("zeros.npy", bytes(20_000_000), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _claim(rng: Rng, content: bytes) -> bytes:
    """Return a .npy file whose header claims something else."""
    size = struct.unpack("<H", content[8:10])[0]
    kind = pick(rng, ("<f8", "|O", "<U9", "<c16", "|V8", "<M8[s]", "|u1"))
    shape = pick(rng, ((10**12,), (2**31, 2**31), (0,), (-1,), (0, 10**18), (3,)))
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    return content[:10] + text.ljust(size - 1)[: size - 1] + b"\n" + content[10 + size :]


def inflate_picture(rng: Rng, data: bytes) -> bytes:
    """Return a picture that claims to be enormous, its checksums right."""
    sizes = [pick(rng, (0, 1, 30_000, 65_535)) for _ in range(2)]
    if data.startswith(b"\x89PNG"):
        chunk = b"IHDR" + struct.pack(">II", *sizes) + data[24:29]
        return data[:12] + chunk + struct.pack(">I", zlib.crc32(chunk)) + data[33:]
    start = data.find(b"\xff\xc0")  # the frame of a JPEG: length, precision, height, width
    return data[: start + 5] + struct.pack(">HH", *sizes) + data[start + 9 :]
