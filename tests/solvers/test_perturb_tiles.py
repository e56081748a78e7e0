"""Perturb-and-MAP by tiles: the same bits as on the whole image."""

import numpy as np
import pytest

import logsuper as ls
from benchmarks.tile_cases import KINDS, make_case
from logsuper.solvers._tile_solve import Task


@pytest.mark.parametrize("number", [0, 1, 4, 5, 6, 7, 9])
def test_counts_equal_those_of_the_whole(number, engine):
    case = make_case(number + len(KINDS))
    if engine == "scipy" and case.theta.size > 1500:
        pytest.skip("slow without kernels")
    factors = case.edge_weights and np.concatenate([w.ravel() for w in case.edge_weights])
    whole = ls.prepare([case.f]).perturb(
        case.theta.ravel(), [1.0], 3, seed=5, edge_weights=factors, numbers=[7]
    )
    counts = ls.perturb_tiles(
        case.f, case.theta, 3, seed=5, number=7, edge_weights=case.edge_weights,
        block=case.block, halo=case.halo,
    )  # fmt: skip
    np.testing.assert_array_equal(counts.ravel() / 3, whole.mean[0])


@pytest.mark.parametrize(("shape", "neighbors"), [((15, 22), 8), ((4, 5, 6), 6)])
def test_conditioned_models_have_the_noise_of_their_elements(shape, neighbors, engine):
    rng = np.random.default_rng(0)
    f = ls.Sum([(0.5, cut) for cut in ls.grid_cuts(shape, neighbors)])
    theta = rng.normal(size=shape)
    places = rng.choice(f.n, f.n // 5, replace=False).tolist()
    model = ls.LogSupermodular(f).condition({place: place % 2 for place in places})
    whole = ls.prepare([model.f]).perturb(theta.ravel()[model.free], [1.0], 3, seed=1).mean[0]
    counts = ls.perturb_tiles(model, theta, 3, seed=1, block=6).ravel()
    np.testing.assert_array_equal(counts[model.free] / 3, whole)
    assert [counts[place] for place in places] == [3 * (place % 2) for place in places]


def test_counts_go_to_an_array_and_progress_is_reported():
    f, theta = ls.Sum([(1.0, cut) for cut in ls.grid_cuts((30, 40))]), np.ones((30, 40))
    out, seen = np.zeros((30, 40), dtype=np.uint32), []
    found = ls.perturb_tiles(f, theta, 2, seed=0, block=20, out=out, callback=seen.append)
    assert found is out and out.max() == 2
    assert [state.done for state in seen] == list(range(1, 9)) and seen[0].total == 8
    with pytest.raises(ValueError, match="out must be an array"):
        ls.perturb_tiles(f, theta, 2, seed=0, out=np.zeros(3))
    with pytest.raises(TypeError, match="uint32"):  # counts would wrap
        ls.perturb_tiles(f, theta, 300, seed=0, out=np.zeros((30, 40), dtype=np.uint8))


def test_finished_tiles_of_all_samples_are_not_solved_again(tmp_path, monkeypatch):
    theta = np.random.default_rng(0).normal(size=(30, 40))
    f = ls.Sum([(1.0, cut) for cut in ls.grid_cuts(theta.shape)])
    right = ls.perturb_tiles(f, theta, 3, seed=0, block=20)

    def stop(state):
        if state.done == 7:
            raise KeyboardInterrupt

    options = {"block": 20, "checkpoint": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        ls.perturb_tiles(f, theta, 3, seed=0, callback=stop, **options)
    assert len(list(tmp_path.iterdir())) == 7
    solved = []
    run = Task.run
    monkeypatch.setattr(Task, "run", lambda task: solved.append(task) or run(task))
    np.testing.assert_array_equal(ls.perturb_tiles(f, theta, 3, seed=0, **options), right)
    assert len(solved) == 12 - 7
    np.testing.assert_array_equal(ls.perturb_tiles(f, theta, 3, seed=0, **options), right)
    assert len(solved) == 12 - 7
    # other noise is another problem
    other = ls.perturb_tiles(f, theta, 3, seed=1, **options)
    np.testing.assert_array_equal(other, ls.perturb_tiles(f, theta, 3, seed=1, block=20))
