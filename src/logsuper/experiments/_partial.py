"""Results of finished parts of a long run, so that an interrupted one can go on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from logsuper._files import atomic_write
from logsuper.experiments import _origin
from logsuper.functions._checks import FloatArray


class Partial:
    """A folder of arrays, one file a part; a part is found again only under the same arguments.

    Parameters
    ----------
    folder : path
    arguments : mapping
        All that the arrays depend on, as JSON can hold it. A checksum of the library's source is
        added, so that numbers of different code never meet in one table.
    """

    def __init__(self, folder: str | os.PathLike[str], arguments: Mapping[str, Any]) -> None:
        # once through JSON, so that tuples compare equal to what is read back
        self._arguments = json.loads(json.dumps({**arguments, "source": _origin.source()}))
        text = json.dumps(self._arguments, sort_keys=True)
        self._folder = Path(folder)
        self._tag = hashlib.sha256(text.encode()).hexdigest()[:12]

    def path(self, name: str) -> Path:
        """Return the file of a part."""
        return self._folder / f"{name}-{self._tag}.json"

    def load(self, name: str, shape: tuple[int, ...]) -> FloatArray | None:
        """Return the array of a part; None if there is none, or it is damaged."""
        try:
            content = json.loads(self.path(name).read_text(encoding="utf-8"))
            if content["arguments"] != self._arguments:
                return None
            return np.array(content["result"], dtype=np.float64).reshape(shape)  # null becomes NaN
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def store(self, name: str, result: FloatArray) -> None:
        """Write the array of a finished part; JSON keeps every digit."""
        plain = [None if np.isnan(number) else number for number in result.ravel().tolist()]
        content = {"arguments": self._arguments, "result": plain}
        with atomic_write(self.path(name)) as file:
            file.write(json.dumps(content, allow_nan=False).encode())
