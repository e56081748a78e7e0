"""Boosted trees as arrays of nodes: evaluated without the library that grew them, saved as numbers.

What a model predicts is the same before it is saved and after it is loaded, whatever version of
scikit-learn is there.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from logsuper._base import FloatArray
from logsuper.solvers import kernels

__all__ = ["Trees"]


@dataclasses.dataclass(frozen=True, eq=False)
class Trees:
    """A sum of decision trees, the log-odds of a one.

    All arrays but `roots` have one entry per node, those of a tree one after the other, each child
    behind its parent.

    Attributes
    ----------
    roots : ndarray of int32
        The first node of each tree.
    feature : ndarray of int32
        The number of the feature that a node looks at; -1 in a leaf.
    threshold : ndarray of float32
        Rows with at most this go to the left.
    left, right : ndarray of int32
        The children.
    value : ndarray of float64
        What a leaf adds.
    baseline : float
        What all rows have.
    width : int
        Number of features.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: FloatArray
    baseline: float
    width: int

    @classmethod
    def take(cls, classifier: Any) -> Self | None:
        """Return the trees of a fitted histogram gradient boosting; None for anything else."""
        try:
            trees = [tree.nodes for (tree,) in classifier._predictors]
            baseline = float(np.ravel(classifier._baseline_prediction)[0])
            nodes, width = np.concatenate(trees), int(classifier.n_features_in_)
            if nodes["is_categorical"].any() or len(classifier.classes_) != 2:
                return None
            leaf = nodes["is_leaf"].astype(bool)
        except (AttributeError, KeyError, TypeError, ValueError, IndexError):
            return None
        sizes = [len(tree) for tree in trees]
        roots = np.cumsum([0, *sizes[:-1]])
        shift = np.repeat(roots, sizes)
        threshold = nodes["num_threshold"].astype(np.float32)
        # no float32 is between a threshold and the next float32 below it
        above = threshold > nodes["num_threshold"]
        threshold[above] = np.nextafter(threshold[above], np.float32(-np.inf))
        found = cls(
            roots.astype(np.int32),
            np.where(leaf, -1, nodes["feature_idx"]).astype(np.int32),
            np.where(leaf, np.float32(0.0), threshold),
            np.where(leaf, 0, nodes["left"] + shift).astype(np.int32),
            np.where(leaf, 0, nodes["right"] + shift).astype(np.int32),
            np.where(leaf, nodes["value"], 0.0),
            baseline,
            width,
        )
        return found if found.valid else None

    @property
    def valid(self) -> bool:
        """Whether every row reaches a leaf of every tree, and finds the features on the way."""
        count = len(self.feature)
        arrays: list[NDArray[Any]] = [self.feature, self.left, self.right]
        arrays += [self.threshold, self.value]
        if any(array.shape != (count,) for array in arrays):
            return False
        types = [np.dtype(name) for name in ("i4", "i4", "i4", "f4", "f8")]
        if [array.dtype for array in arrays] != types:
            return False
        roots = self.roots
        if roots.ndim != 1 or roots.dtype != np.int32 or not len(roots) or roots[0] != 0:
            return False
        ends = np.append(roots[1:], count)
        if (ends <= roots).any() or type(self.width) is not int or self.width < 1:
            return False
        inner = self.feature >= 0
        at, end = np.flatnonzero(inner), np.repeat(ends, ends - roots)[inner]
        children = np.stack([self.left[inner], self.right[inner]])
        return bool(
            (children > at).all()
            and (children < end).all()
            and len(np.unique(children)) == children.size
            and (self.feature < self.width).all()
            and (self.feature >= -1).all()
            and np.isfinite(self.threshold[inner]).all()
            and np.isfinite(self.value).all()
            and np.isfinite(self.baseline)
        )

    def predict_proba(self, rows: NDArray[np.float32], threads: int = 1) -> FloatArray:
        """Return the probabilities of a zero and of a one, (N, 2)."""
        odds = self.decision_function(rows, threads)
        return np.stack([expit(-odds), expit(odds)], axis=1)

    def decision_function(self, rows: NDArray[np.float32], threads: int = 1) -> FloatArray:
        """Return the log-odds of rows (N, p), the same for any number of threads."""
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"rows has shape {rows.shape}; the trees know {self.width} features")
        columns = np.ascontiguousarray(rows.T, dtype=np.float32)
        odds = np.full(len(rows), self.baseline)
        if self._compiled is not None:
            self._compiled.add(columns, threads, odds)
        else:
            self._add(columns, odds)
        return odds

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: no tables of the kernel."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @cached_property
    def _compiled(self) -> Any:
        """The trees in the kernel's own tables, which are as large as these arrays; or None."""
        native = kernels()
        if native is None:
            return None
        nodes = (self.feature, self.threshold, self.left, self.right, self.value)
        return native.tree_sum(self.width, self.roots, *nodes)

    def _add(self, columns: NDArray[np.float32], odds: FloatArray) -> None:
        """Add to the log-odds what each tree says, as the kernel does: in this order."""
        everything = np.arange(len(odds), dtype=np.int32)
        feature, threshold = self.feature.tolist(), self.threshold
        left, right, value = self.left.tolist(), self.right.tolist(), self.value.tolist()
        for first, end in zip(self.roots, np.append(self.roots[1:], len(feature)), strict=True):
            inside = {int(first): everything}  # the rows that reach a node
            for node in range(first, end):
                here = inside.pop(node, None)
                if here is None:
                    continue
                if feature[node] < 0:
                    odds[here] += value[node]
                    continue
                low = columns[feature[node]][here] <= threshold[node]
                for child, part in ((left[node], here[low]), (right[node], here[~low])):
                    if len(part):
                        inside[child] = part
