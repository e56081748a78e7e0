"""A record of what was written to a folder, so that a second run continues the first.

One line of JSON per file, in OUT/.logsuper/files.jsonl. A line is added *before* its file gets its
name, with the SHA-256 of the bytes and a key of everything that they depend on. So a file that is
there with the bytes of its line is complete, and comes from the same image with the same settings.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from logsuper.cli._folder import RECORD
from logsuper.cli._inputs import writing

_FILE = "files.jsonl"


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file; of a folder (zarr), of the names, sizes and times in it."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        facts = [(str(f.relative_to(path)), f.stat().st_size, f.stat().st_mtime_ns) for f in files]
        return key_of(facts)
    with open(path, "rb") as file:
        return digest_of_open(file)


def digest_of_contents(folder: Path) -> str:
    """Return 64 digits that depend on the names and bytes of all files in a folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return key_of([(file.relative_to(folder).as_posix(), digest_of(file)) for file in files])


def digest_of_open(file: Any) -> str:
    """Return the SHA-256 of the bytes of an open file, from its beginning."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def key_of(*facts: Any) -> str:
    """Return 64 hexadecimal digits that depend on all the facts, which JSON can represent."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


class Ledger:
    """The record of one folder.

    Parameters
    ----------
    out : Path
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out / RECORD
        self._lines: dict[str, dict[str, Any]] = {}
        path = self.folder / _FILE
        text = path.read_bytes().decode("utf-8", "replace") if path.exists() else ""
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                self._lines[entry["file"]] = entry
            except (ValueError, TypeError, KeyError):
                continue  # cut short when a process was killed

    def finished(self, name: str, key: str) -> dict[str, Any] | None:
        """Return the line of a file that is complete and has this key."""
        entry = self._lines.get(name)
        path = self.out / name
        if entry is None or entry.get("key") != key or not path.exists():
            return None
        digest = digest_of_contents(path) if path.is_dir() else digest_of(path)
        return entry if entry.get("sha256") == digest else None

    def write(
        self, name: str, key: str, encode: Callable[[Any], object], figures: dict[str, Any]
    ) -> None:
        """Write a file, and record it before it gets its name.

        Parameters
        ----------
        name : str
            Below the folder.
        key : str
        encode : callable
            Writes the bytes to an open file; to an empty folder if the name ends in .zarr.
        figures : dict
            What else is kept in its line.
        """
        from logsuper._base import atomic_write
        from logsuper.io import atomic_folder

        if name.endswith(".zarr"):
            with writing(self.out), atomic_folder(self.out / name) as folder:
                encode(folder)
                self._add(name, key, digest_of_contents(folder), figures)
            return
        with writing(self.out), atomic_write(self.out / name) as file:
            encode(file)
            file.flush()
            self._add(name, key, digest_of_open(file), figures)

    def _add(self, name: str, key: str, sha256: str, figures: dict[str, Any]) -> None:
        entry = {"file": name, "key": key, "sha256": sha256, **figures}
        self._lines[name] = entry
        self.folder.mkdir(parents=True, exist_ok=True)
        line = (json.dumps(entry) + "\n").encode()
        with open(self.folder / _FILE, "ab") as file:
            if file.tell() and not self._ends_whole():
                line = b"\n" + line
            file.write(line)

    def _ends_whole(self) -> bool:
        with open(self.folder / _FILE, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def tidy(self) -> None:
        """Write the record anew, sorted, each file once, at the end of a run."""
        from logsuper._base import atomic_write

        if not self._lines:
            return
        with writing(self.out), atomic_write(self.folder / _FILE) as file:
            for name in sorted(self._lines):
                file.write((json.dumps(self._lines[name]) + "\n").encode())
