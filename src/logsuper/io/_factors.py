"""The factors of a UAI file, and of a model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from logsuper.bounds import need_pairwise
from logsuper.io._tokens import Tokens
from logsuper.model import LogSupermodular

# Largest absolute logarithm of a table entry that is written: e^-600 and e^600 fit float64.
_RANGE = 600.0
# Maximum number of equal factors into which a factor beyond that range is split.
_COPIES = 1000


@dataclasses.dataclass(frozen=True)
class Factor:
    """A table over the states of its scope, the last variable changing fastest.

    A constant factor has a single entry, for any scope.
    """

    number: int
    scope: tuple[int, ...]
    table: tuple[float, ...]

    def __str__(self) -> str:
        return f"factor {self.number} on {self.scope} with the table {list(self.table)}"


def read_factors(tokens: Tokens) -> tuple[int, list[Factor]]:
    """Return the number of variables and the factors."""
    kind = tokens.word("the word MARKOV")
    if kind.upper() not in ("MARKOV", "BAYES"):
        raise ValueError(f"{tokens.name} should begin with MARKOV or BAYES, got {kind[:40]!r}")
    n = tokens.integer("the number of variables")
    for i, size in enumerate(tokens.integers(n, f"the size of each of {n} variables")):
        if size != 2:
            raise ValueError(f"{tokens.name}: variable {i} has {size} states; only 2 can be read")
    count = tokens.integer("the number of factors")
    if count > tokens.left:
        raise ValueError(f"{tokens.name} ends too early: it is too short for {count} factors")
    scopes = [_read_scope(tokens, k, n) for k in range(count)]
    factors = [Factor(k, scope, _read_table(tokens, k, scope)) for k, scope in enumerate(scopes)]
    if tokens.left:
        raise ValueError(f"{tokens.name} has {tokens.left} words too many after the last table")
    return n, factors


def _read_scope(tokens: Tokens, k: int, n: int) -> tuple[int, ...]:
    """Return the variables of a factor."""
    what = f"the scope of factor {k}"
    scope = tuple(tokens.integers(tokens.integer(what), what))
    for variable in scope:
        if variable >= n:
            raise ValueError(
                f"{tokens.name}: factor {k} has the variable {variable}, outside [0, {n})"
            )
    if len(set(scope)) < len(scope):
        raise ValueError(f"{tokens.name}: factor {k} names a variable twice: {scope}")
    return scope


def _read_table(tokens: Tokens, k: int, scope: tuple[int, ...]) -> tuple[float, ...]:
    """Return the entries of a factor; of more than two variables, only constants are allowed."""
    what = f"the table of factor {k} on {scope}"
    size = tokens.integer(what)
    if len(scope) > 59 or size != 1 << len(scope):
        raise ValueError(
            f"{tokens.name}: {what} should have 2^{len(scope)} entries, the file says {size}"
        )
    table = tuple(tokens.numbers(size, what))
    if len(scope) <= 2:
        return table
    if any(entry != table[0] for entry in table):
        raise ValueError(
            f"{tokens.name}: factor {k} has {len(scope)} variables, {scope}; only factors of one "
            "or two variables can be read, unless all entries of a larger one are equal"
        )
    return table[:1]


def model_factors(model: LogSupermodular, hard: bool) -> Iterator[Factor]:
    """Yield the factors of a pairwise model; if `hard`, fixed elements get a zero in a factor."""
    terms: list[tuple[tuple[int, ...], list[float]]] = []
    if model.f.n == 0:
        terms.append(((), [model.constant]))
    else:
        pairwise = need_pairwise(model.f, "write_uai")
        # every element has a factor of its own: the constant is divided equally among these
        share = model.constant / model.f.n
        fields = zip(model.free.tolist(), pairwise.t.tolist(), strict=True)
        terms += [((i,), [share, share + field]) for i, field in fields]
        ends = zip(model.free[pairwise.edges].tolist(), pairwise.weights.tolist(), strict=True)
        terms += [((i, j), [0.0, -weight, -weight, 0.0]) for (i, j), weight in ends]
    number = 0
    for scope, logs in terms:
        copies = _copies(scope, logs)
        table = tuple(math.exp(value / copies) for value in logs)
        for _ in range(copies):
            yield Factor(number, scope, table)
            number += 1
    if hard:
        for element, value in model.fixed.items():
            yield Factor(number, (element,), (1.0 - value, float(value)))
            number += 1


def _copies(scope: tuple[int, ...], logs: list[float]) -> int:
    """Return the number of equal factors needed to write a table with these logarithms."""
    largest = max(map(abs, logs))
    if largest > _RANGE * _COPIES:
        where = f"of the elements {scope}" if scope else "of the model's constant"
        raise ValueError(
            f"the table {where} would have an entry as far from 1 as exp({largest:g}), which "
            "cannot be written; rescale the model"
        )
    return max(1, math.ceil(largest / _RANGE))
