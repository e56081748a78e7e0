r"""The engine for functions of counts, :math:`f_k(x)=g_k(\sum_{i\in C_k}x_i)`, exact.

Sets that are counted must be the same or disjoint: then the model falls into parts with one count
each, and a recursion over the elements sums out all of it.
"""

from __future__ import annotations

import numpy as np

from logsuper._base import FloatArray, IntArray
from logsuper.bounds import count_cost, count_marginals, counted
from logsuper.functions import Modular
from logsuper.learning._engines import Batch, Partition
from logsuper.learning._examples import Group

__all__ = ["Counts"]

Part = tuple[IntArray, FloatArray]
"""Elements that are counted together, and the values of all functions at 0, 1, ... ones, (K, m)."""


class Counts:
    """Exact inference where only counts over disjoint sets matter, one example after the other."""

    def __init__(self) -> None:
        self._tables: dict[Group, tuple[list[Part], FloatArray]] = {}

    @staticmethod
    def cost(group: Group) -> float | None:
        """Return about how many operations an example takes; None for other functions."""
        parts = _tabulate(group)
        return None if parts is None else sum(3.0 * count_cost(len(part[0])) for part in parts[0])

    def evaluate(self, batch: Batch, step: int = 0) -> Partition:
        """Sum over the elements of each example in turn."""
        group, _, alpha, fields, _ = batch
        if group not in self._tables:
            tables = _tabulate(group)
            assert tables is not None
            self._tables[group] = tables
        parts, linear = self._tables[group]
        values = np.zeros(len(fields))
        means = np.empty(fields.shape)
        stats = np.zeros((len(fields), len(alpha)))
        for row, given in enumerate(fields):
            field = given - alpha @ linear
            for members, table in parts:
                value, mean, expected = _sum_out(table, alpha, field[members])
                values[row] += value
                means[row, members] = mean
                stats[row] += expected
            stats[row] += linear @ means[row]
            # what is fixed has no field of its own, but its share of the functions
            values[row] -= float(alpha @ linear @ np.isposinf(given))
        return Partition(values[:, None], stats, means)


def _tabulate(group: Group) -> tuple[list[Part], FloatArray] | None:
    """Return what is counted, and the modular parts of all functions (K, n); None for others."""
    functions, n = group.prepared.functions, group.prepared.n
    linear = np.zeros((len(functions), n))
    tables: dict[bytes, Part] = {}
    for k, f in enumerate(functions):
        for weight, atom in f.terms():
            if isinstance(atom, Modular):
                linear[k] += weight * atom.t
                continue
            found = counted(atom)
            if found is None:
                return None
            members, g = found
            key = np.asarray(members, dtype=np.int64).tobytes()
            if key not in tables:
                tables[key] = members, np.zeros((len(functions), len(g)))
            tables[key][1][k] += weight * g
    alone = np.ones(n, dtype=np.int64)
    for members, _ in tables.values():
        alone[members] -= 1
    if (alone < 0).any():
        return None
    free = np.flatnonzero(alone)
    return [*tables.values(), (free, np.zeros((len(functions), len(free) + 1)))], linear


def _sum_out(
    table: FloatArray, alpha: FloatArray, field: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return log Z, E x and the expected functions of elements that are counted together."""
    fixed = np.isinf(field)
    ones = int(np.count_nonzero(field[fixed] > 0))
    free = field[~fixed]
    seen = table[:, ones : ones + len(free) + 1]  # at the counts that remain possible
    g = alpha @ seen
    mean = np.where(field > 0, 1.0, 0.0)
    value, mean[~fixed], count = count_marginals(g, free)
    return value, mean, seen @ count
