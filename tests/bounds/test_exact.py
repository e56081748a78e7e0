"""The choice among the exact methods."""

import numpy as np
import pytest
from cases import each
from oracles import FAMILIES, brute_log_partition, random_concave

from logsuper.bounds import TooLarge, _enumeration, _exact
from logsuper.functions import ConcaveCardinality, Cut, LogDet, Modular, grid_cuts


@each("name", FAMILIES)
@pytest.mark.parametrize("n", [1, 8])
def test_equals_enumeration(name, n, seed):
    f = FAMILIES[name](np.random.default_rng(seed), n)
    found = _exact.log_partition(f)
    assert found.value == pytest.approx(brute_log_partition(f), rel=1e-11, abs=1e-11)
    assert found.target == "exact"
    assert found.certified
    np.testing.assert_allclose(_exact.marginals(f), _enumeration.marginals(f), atol=1e-9)
    assert 0 < _exact.operations(f) < 1e9


def test_picks_what_suits_the_function():
    rng = np.random.default_rng(0)
    tree = Cut(500, [(i, i // 2) for i in range(1, 500)]) - Modular(rng.normal(size=500))
    counts = ConcaveCardinality(random_concave(rng, 100)) - Modular(rng.normal(size=100))
    kernel = LogDet(np.eye(6) + 0.1)
    for f, method in [(tree, "elimination"), (counts, "cardinality"), (kernel, "enumeration")]:
        assert _exact.log_partition(f).method == method
        assert _exact.marginals(f).method == method


def test_many_components_are_affordable_together():
    # 40 complete graphs of 8 elements: 320 elements, and no table of more than 2^8 entries
    pairs = np.array([(i, j) for i in range(8) for j in range(i)])
    one = Cut(8, pairs, 0.3)
    edges = np.concatenate([pairs + 8 * k for k in range(40)])
    assert _exact.log_partition(Cut(320, edges, 0.3)).value == pytest.approx(
        40 * brute_log_partition(one), rel=1e-12
    )


def test_refusal_names_every_number_and_a_way_out():
    f = LogDet(np.eye(30))
    with pytest.raises(TooLarge, match=r"enumeration .*2\^30 states.*bracket\(\)") as caught:
        _exact.log_partition(f)
    assert 2.0**30 <= caught.value.operations < np.inf
    assert _exact.operations(f) == np.inf
    small = LogDet(np.eye(12))
    with pytest.raises(TooLarge, match=r"enumeration would take [\d.e+]+ operations"):
        _exact.marginals(small, budget=100)
    grid = sum(grid_cuts((30, 30)))
    with pytest.raises(TooLarge, match=r"transfer .* operations.*elimination would take .* bytes"):
        _exact.log_partition(grid)
    with pytest.raises(TooLarge, match="no exact method"):
        _exact.log_partition(sum(grid_cuts((60, 60), neighbors=8)))
    with pytest.raises(ValueError, match="budget must be a positive number"):
        _exact.log_partition(small, budget=-1)
