"""Boosted trees as arrays: the kernel, NumPy and scikit-learn say the same."""

import copy
import dataclasses
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from logsuper.estimators import _trees, _unary
from logsuper.estimators._trees import Trees
from logsuper.solvers import kernels

needs_kernels = pytest.mark.skipif(kernels() is None, reason="needs the compiled kernels")

# Few numbers, so that rows often are at a threshold, or beside one by a bit.
NUMBERS = np.array([-1e30, -1.5, -1e-45, -0.0, 0.0, 1 / 3, 1.0, 3e38], np.float32)
WIDTH = 4


def grow(rng: np.random.Generator, leaves: int, kind: str) -> dict[str, np.ndarray]:
    """Return the nodes of a tree: leaves are split at random, or always the last one."""
    children, ends = {}, [0]
    for count in range(1, 2 * leaves - 1, 2):
        place = int(rng.integers(len(ends))) if kind == "random" else len(ends) - 1
        node = ends.pop(place)
        pair = [count, count + 1]
        children[node] = pair
        ends += pair[::-1] if kind == "left" else pair
    n = 2 * leaves - 1
    inner = np.array([i in children for i in range(n)])
    below = np.array([children.get(i, (0, 0)) for i in range(n)], dtype=np.int32)
    return {
        "feature": np.where(inner, rng.integers(0, WIDTH, n), -1).astype(np.int32),
        "threshold": np.where(inner, rng.choice(NUMBERS, n), 0).astype(np.float32),
        "left": below[:, 0],
        "right": below[:, 1],
        "value": np.where(inner, 0.0, rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)),
    }


def make_trees(rng: np.random.Generator, sizes: list[tuple[int, str]]) -> Trees:
    parts = [grow(rng, *size) for size in sizes]
    roots = np.cumsum([0, *(len(part["feature"]) for part in parts)])[:-1]
    for part, root in zip(parts, roots, strict=True):
        for side in ("left", "right"):
            part[side] = np.where(part["feature"] < 0, 0, part[side] + root).astype(np.int32)
    nodes = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    trees = Trees(roots.astype(np.int32), **nodes, baseline=float(rng.normal()), width=WIDTH)
    assert trees.valid
    return trees


def make_rows(rng: np.random.Generator, count: int) -> np.ndarray:
    beside = np.nextafter(NUMBERS, np.float32(np.inf)), np.nextafter(NUMBERS, np.float32(-np.inf))
    values = np.concatenate([NUMBERS, *beside, np.float32([np.inf, -np.inf, np.nan])])
    return rng.choice(values, (count, WIDTH))


def descend(trees: Trees, row: np.ndarray) -> float:
    """Return the log-odds of a row, one node after the other."""
    odds = trees.baseline
    for root in trees.roots:
        node = root
        while trees.feature[node] >= 0:
            low = row[trees.feature[node]] <= trees.threshold[node]
            node = (trees.left if low else trees.right)[node]
        odds += trees.value[node]
    return odds


def by_numpy(trees: Trees, rows: np.ndarray) -> np.ndarray:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_trees, "kernels", lambda: None)
        return dataclasses.replace(trees).decision_function(rows)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


SIZES = st.tuples(
    st.sampled_from([1, 2, 3, 31, 32, 33, 64, 65, 150, 256, 257, 400]),
    st.sampled_from(["random", "left", "right"]),
)


@given(st.integers(0, 2**31), st.lists(SIZES, min_size=1, max_size=6), st.integers(0, 700))
@settings(max_examples=60, deadline=None)
def test_kernel_and_numpy_give_the_same_bits(seed, sizes, count):
    rng = np.random.default_rng(seed)
    trees, rows = make_trees(rng, sizes), make_rows(rng, count)
    expected = by_numpy(trees, rows)
    for threads in (1, 2, 5):
        assert same_bits(trees.decision_function(rows, threads), expected)
    # however the rows lie in memory, and whatever other rows there are
    assert same_bits(trees.decision_function(np.asfortranarray(rows)), expected)
    assert same_bits(trees.decision_function(rows[count // 3 :]), expected[count // 3 :])
    for row, odds in zip(rows[:3], expected, strict=False):
        assert descend(trees, row) == odds


@needs_kernels
def test_both_builds_give_the_same_bits(seed):
    rng = np.random.default_rng(seed)
    trees, rows = (
        make_trees(rng, [(32, "random"), (90, "random"), (300, "left")]),
        make_rows(rng, 999),
    )
    columns, nodes = np.ascontiguousarray(rows.T), dataclasses.asdict(trees)
    baseline = nodes.pop("baseline")
    expected = by_numpy(trees, rows)
    for name in ("_kernels", "_kernels_avx2"):
        module = pytest.importorskip(f"logsuper.{name}", exc_type=ImportError)
        if name == "_kernels_avx2" and not module.has_avx2():
            continue
        odds = np.full(len(rows), baseline)
        module.tree_sum(**nodes).add(columns, 2, odds)
        assert same_bits(odds, expected)


@needs_kernels
def test_a_chain_as_deep_as_the_tree_is_large():
    trees = make_trees(np.random.default_rng(0), [(20_000, "right"), (20_000, "left")])
    rows = make_rows(np.random.default_rng(1), 50)
    assert same_bits(trees.decision_function(rows), by_numpy(trees, rows))


@pytest.mark.parametrize("extra", [3, 400])
def test_nodes_that_no_row_reaches_are_passed_over(extra):
    both = make_trees(np.random.default_rng(0), [(5, "random"), (extra, "random")])
    # all nodes belong to the first tree, in which nothing leads to those of the second
    one = dataclasses.replace(both, roots=both.roots[:1])
    assert one.valid
    rows = make_rows(np.random.default_rng(1), 100)
    found = one.decision_function(rows)
    assert same_bits(found, by_numpy(one, rows))
    assert found.tolist() == [descend(one, row) for row in rows]


@pytest.mark.parametrize("most", [2, 31, 32, 33, 100, None])
def test_trees_as_arrays_predict_what_scikit_learn_predicts(most):
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (3000, 5)).astype(np.float32) / 3
    X[rng.random(X.shape) < 0.5] += rng.normal()
    y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=3000) > 0).astype(int)
    template = HistGradientBoostingClassifier(
        max_iter=30, max_leaf_nodes=most, min_samples_leaf=3, random_state=0
    )
    fitted = template.fit(X, y)
    trees = Trees.take(fitted)
    new = rng.normal(size=(500, 5)).astype(np.float32)
    new[:50] = np.inf * np.sign(new[:50])
    for rows in (X, new):
        found = trees.predict_proba(rows, threads=2)
        np.testing.assert_allclose(found, fitted.predict_proba(rows), rtol=0, atol=1e-12)
        # fields of `MaskCRF` count on the same bits
        np.testing.assert_array_equal(found[:, 1], fitted.predict_proba(rows)[:, 1])
        assert same_bits(trees.decision_function(rows), by_numpy(trees, rows))
    assert Trees.take(LogisticRegression()) is None
    with pytest.raises(ValueError, match="5 features"):
        trees.predict_proba(new[:, :3])


@pytest.mark.parametrize("what", ["left", "feature", "value", "roots"])
def test_trees_of_a_stranger_are_checked(what):
    X = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    trees = Trees.take(HistGradientBoostingClassifier(max_iter=2).fit(X, X[:, 0] > 0))
    assert trees.valid
    bad = getattr(trees, what).copy()
    bad[0 if what != "roots" else 1] = {"left": 0, "feature": 9, "value": np.nan, "roots": -4}[what]
    assert not dataclasses.replace(trees, **{what: bad}).valid


@pytest.mark.parametrize("what", ["left", "threshold", "value", "roots"])
def test_other_types_of_numbers_are_not_trees(what):
    trees = make_trees(np.random.default_rng(0), [(4, "random")])
    array = getattr(trees, what)
    other = {"i4": np.int64, "f4": np.float64, "f8": np.float32}[array.dtype.str[1:]]
    assert not dataclasses.replace(trees, **{what: array.astype(other)}).valid
    assert not dataclasses.replace(trees, **{what: array.astype(array.dtype.newbyteorder())}).valid


def test_tables_of_the_kernel_are_neither_pickled_nor_copied():
    trees = make_trees(np.random.default_rng(0), [(9, "random")])
    rows = make_rows(np.random.default_rng(1), 10)
    expected, size = trees.decision_function(rows), len(pickle.dumps(dataclasses.replace(trees)))
    assert len(pickle.dumps(trees)) == size
    for other in (pickle.loads(pickle.dumps(trees)), copy.deepcopy(trees), copy.copy(trees)):
        assert "_compiled" not in vars(other)
        assert same_bits(other.decision_function(rows), expected)


def test_a_field_judges_by_the_same_trees(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)).astype(np.float32)
    fitted = HistGradientBoostingClassifier(max_iter=5).fit(X, X[:, 0] * X[:, 1] > 0)
    hole = X.copy()
    hole[7, 0] = np.nan  # scikit-learn chose a side for these
    expected = [_unary._Judge(fitted, 1)(rows) for rows in (X, hole)]
    monkeypatch.setattr(_unary.Trees, "take", lambda _: None)
    for rows, found in zip((X, hole), expected, strict=True):
        assert same_bits(found, _unary._Judge(fitted, 1)(rows))


# ------------------------------------------------------------------------------ the kernel itself


def call(module, **changed):
    """Prepare two trees and add them up, with some arguments of either call changed."""
    given = {
        "width": 3,
        "roots": np.array([0, 3], np.int32),
        "feature": np.array([0, -1, -1, 2, -1, 1, -1, -1], np.int32),
        "threshold": np.zeros(8, np.float32),
        "left": np.array([1, 0, 0, 4, 0, 6, 0, 0], np.int32),
        "right": np.array([2, 0, 0, 5, 0, 7, 0, 0], np.int32),
        "value": np.arange(8.0),
    }
    rest = {"columns": np.ones((3, 5), np.float32), "threads": 1, "sums": np.zeros(5)}
    trees = module.tree_sum(**{name: changed.get(name, value) for name, value in given.items()})
    rest |= {name: value for name, value in changed.items() if name in rest}
    trees.add(**rest)
    return rest["sums"]


def put(name, place, number):
    """Return an array of the valid call with one number changed."""
    array = {
        "roots": np.array([0, 3], np.int32),
        "feature": np.array([0, -1, -1, 2, -1, 1, -1, -1], np.int32),
        "left": np.array([1, 0, 0, 4, 0, 6, 0, 0], np.int32),
        "right": np.array([2, 0, 0, 5, 0, 7, 0, 0], np.int32),
    }[name]
    array[place] = number
    return array


@needs_kernels
def test_the_kernel_refuses_what_is_no_tree():
    far = np.iinfo(np.int32)
    bad = {
        "width": [0, -1, 2],
        "roots": [put("roots", 0, 1), put("roots", 0, -1), np.zeros(0, np.int32)]
        + [put("roots", 1, k) for k in (0, -3, 8, 9, far.min, far.max)],
        "feature": [put("feature", 0, k) for k in (3, -2, far.min, far.max)]
        + [put("feature", 1, 0), np.zeros(8, np.int32)],  # a leaf less: it has no children
        "left": [put("left", 0, k) for k in (0, -1, 2, 3, 8, far.min, far.max)]
        + [put("left", 5, k) for k in (0, 3, 4, 5, 7, 8)],
        "right": [put("right", 0, k) for k in (0, -1, 1, 3)] + [np.zeros(7, np.int32)],
        "threshold": [np.zeros(7, np.float32), np.zeros((8, 1), np.float32)],
        "value": [np.zeros(9), np.array(0.0)],
        "columns": [np.ones((2, 5), np.float32), np.ones(15, np.float32)],
        "threads": [0, -1],
        "sums": [np.zeros(4), np.zeros((5, 1)), np.zeros(5, np.float32)],
    }
    module = kernels()
    np.testing.assert_array_equal(call(module), np.full(5, 2.0 + 7.0))
    for name, value in itertools.chain.from_iterable(
        ((name, value) for value in values) for name, values in bad.items()
    ):
        with pytest.raises((ValueError, TypeError)):
            call(module, **{name: value})
    # thresholds may be anything: nothing is looked up by them
    for number in (np.nan, np.inf, -np.inf):
        call(module, threshold=np.full(8, number, np.float32))
    no_nodes = {name: put(name, 0, 0)[:0] for name in ("feature", "left", "right")}
    with pytest.raises(ValueError, match="roots must increase"):
        none = {"threshold": np.zeros(0, np.float32), "value": np.zeros(0)}
        call(module, roots=np.zeros(1, np.int32), **no_nodes, **none)
