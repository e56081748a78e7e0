"""The result files of the UAI inference competitions: .PR, .MAR and .MAP."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from logsuper._base import atomic_write
from logsuper.io._tokens import FilePath

__all__ = ["write_uai_results"]


def write_uai_results(
    path: FilePath,
    *,
    log_partition: float | None = None,
    marginals: Any = None,
    mode: Any = None,
    force: bool = False,
) -> list[Path]:
    r"""Write answers about a model of binary variables in the formats of the UAI competitions.

    Parameters
    ----------
    path : str or path
        What the names begin with, such as "model.uai" for "model.uai.PR".
    log_partition : float, optional
        The natural logarithm of Z; the file .PR has the decimal one.
    marginals : array-like, optional
        Probabilities that each variable is 1, for the file .MAR.
    mode : array-like, optional
        A most probable state, for the file .MAP.
    force : bool, default False
        Whether to replace files that are there.

    Returns
    -------
    list of Path

    Examples
    --------
    >>> import math, tempfile
    >>> from pathlib import Path
    >>> from logsuper.io import write_uai_results
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = write_uai_results(
    ...         Path(folder) / "m.uai", log_partition=math.log(100), marginals=[0.25], mode=[0]
    ...     )
    ...     for file in files:
    ...         print(file.name, "|", *file.read_text().split())
    m.uai.PR | PR 2.0
    m.uai.MAR | MAR 1 2 0.75 0.25
    m.uai.MAP | MAP 1 0
    """
    texts: dict[str, str] = {}
    if log_partition is not None:
        texts["PR"] = repr(float(log_partition) / math.log(10.0))
    if marginals is not None:
        ones = np.ravel(np.asarray(marginals, dtype=np.float64)).tolist()
        texts["MAR"] = " ".join([str(len(ones)), *(f"2 {1.0 - p!r} {p!r}" for p in ones)])
    if mode is not None:
        state = np.ravel(np.asarray(mode)).astype(int).tolist()
        texts["MAP"] = " ".join(map(str, [len(state), *state]))
    files = [Path(f"{Path(path)}.{kind}") for kind in texts]
    for file in files:
        if file.exists() and not force:
            raise FileExistsError(f"{file}: is there already; give another name, or force=True")
    for file, (kind, text) in zip(files, texts.items(), strict=True):
        with atomic_write(file) as stream:
            stream.write(f"{kind}\n{text}\n".encode("ascii"))
    return files
