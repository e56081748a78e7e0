"""The format of the UAI inference competitions: a graphical model with one table per factor."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from logsuper._base import atomic_write, is_bit
from logsuper.io._factors import model_factors, read_factors
from logsuper.io._product import product
from logsuper.io._tokens import FilePath, Tokens
from logsuper.model import LogSupermodular


def read_uai(
    path: FilePath, evidence: FilePath | Mapping[int, int] | None = None
) -> LogSupermodular:
    r"""Read a log-supermodular model from a UAI file.

    Parameters
    ----------
    path : str or path
        A MARKOV (or BAYES) network of binary variables whose factors have at most two variables
        each; larger factors must be constant. Factors on the same pair are multiplied first.
    evidence : str, path or mapping, optional
        An evidence file, or a mapping of variables to values such as ``{3: 1}``, to condition on.

    Returns
    -------
    LogSupermodular
        Its log Z is the logarithm of the partition function of the file (with evidence, the sum
        over the states that agree with it). Variables for which zeros in the tables leave only one
        value are fixed.

    Raises
    ------
    ValueError
        If the file is damaged, or the model is not log-supermodular: the message names the
        repulsive factor with its scope and table. Also if a zero forbids some state of two
        variables without fixing one of them.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import logsuper as ls
    >>> text = "MARKOV 2  2 2  2  1 0  2 0 1   2 1.0 3.0   4 2.0 1.0 1.0 2.0"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "small.uai"
    ...     _ = path.write_text(text)
    ...     model = ls.read_uai(path)
    >>> model, round(float(model.log_partition()), 6)  # log(2 + 1 + 3 * 1 + 3 * 2)
    (LogSupermodular(Cut(n=2, edges=1) + Modular(n=2), constant=0.693147), 2.484907)
    """
    if evidence is not None and not isinstance(evidence, Mapping):
        evidence = read_evidence(evidence)
    tokens = Tokens(path)
    n, factors = read_factors(tokens)
    return product(tokens.name, n, factors, _check_evidence(evidence or {}, n))


def read_evidence(path: FilePath) -> dict[int, int]:
    """Read the values of observed variables from a UAI evidence file.

    Parameters
    ----------
    path : str or path
        The file holds the number of observed variables, then each variable with its value. The
        older form, in which a 1 (the number of samples) comes first, is read too.

    Returns
    -------
    dict

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from logsuper.io import read_evidence
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "small.uai.evid"
    ...     _ = path.write_text("2  0 1  7 0")
    ...     read_evidence(path)
    {0: 1, 7: 0}
    """
    tokens = Tokens(path)
    if tokens.left == 0:
        raise ValueError(f"{tokens.name} is empty; without evidence it should say 0")
    if tokens.left % 2 == 0:  # a count and pairs make an odd number of words: this is the old form
        samples = tokens.integer("the number of samples")
        if samples != 1:
            raise ValueError(f"{tokens.name} holds {samples} samples of evidence; keep one of them")
    count = tokens.integer("the number of observed variables")
    if tokens.left != 2 * count:
        raise ValueError(
            f"{tokens.name} declares {count} observed variables, which need {2 * count} numbers, "
            f"but {tokens.left} follow"
        )
    found: dict[int, int] = {}
    for k in range(count):
        variable = tokens.integer(f"observed variable {k}")
        value = tokens.integer(f"the value of variable {variable}")
        if found.get(variable, value) != value:
            raise ValueError(f"{tokens.name} gives variable {variable} two values")
        found[variable] = value
    return found


def write_uai(model: LogSupermodular, path: FilePath, evidence: FilePath | None = None) -> None:
    """Write a pairwise model as a UAI file.

    Parameters
    ----------
    model : LogSupermodular
        Its function must be pairwise.
    path : str or path
        Written atomically: an existing file is replaced when the new one is complete.
    evidence : str or path, optional
        File to write the fixed elements of the model to. By default, they are fixed by a zero in
        the table of a factor of their own.

    Notes
    -----
    `read_uai` returns the same model, including its constant, up to rounding. A field or weight too
    large for one table is split into several factors with the same scope.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import logsuper as ls
    >>> model = ls.LogSupermodular(ls.Cut(2, [(0, 1)], 0.5), constant=3.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "small.uai"
    ...     ls.write_uai(model, path)
    ...     ls.read_uai(path)
    LogSupermodular(Cut(n=2, edges=1), constant=3)
    """
    if not isinstance(model, LogSupermodular):
        raise TypeError(f"model must be a LogSupermodular, got a {type(model).__name__}")
    factors = list(model_factors(model, hard=evidence is None))
    lines = ["MARKOV", str(model.n), " ".join(["2"] * model.n), str(len(factors))]
    lines += [" ".join(map(str, (len(factor.scope), *factor.scope))) for factor in factors]
    for factor in factors:
        lines += ["", str(len(factor.table)), " ".join(map(repr, factor.table))]
    with atomic_write(path) as file:
        file.write(("\n".join(lines) + "\n").encode("ascii"))
    if evidence is not None:
        pairs = "".join(f" {element} {value}" for element, value in model.fixed.items())
        with atomic_write(evidence) as file:
            file.write(f"{len(model.fixed)}{pairs}\n".encode("ascii"))


def _check_evidence(evidence: Mapping[int, int], n: int) -> dict[int, int]:
    """Return the evidence as a dictionary of variables and values."""
    for variable, value in evidence.items():
        if not isinstance(variable, int | np.integer) or not 0 <= variable < n:
            raise ValueError(f"evidence names the variable {variable!r}, outside [0, {n})")
        if not is_bit(value):
            raise ValueError(f"evidence gives variable {variable} the value {value!r}, not 0 or 1")
    return {int(variable): int(value) for variable, value in evidence.items()}
