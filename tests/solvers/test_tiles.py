"""Tiles equal the whole, bit for bit, whatever the image is and wherever it lies."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import logsuper as ls
from benchmarks.tile_cases import KINDS, make_case
from logsuper.solvers import _tile_checkpoint, _tile_work, kernels


def problem(shape=(70, 90), strength=1.0, seed=0):
    """Return a function and the fields of a noisy silhouette."""
    image = ls.make_silhouettes(1, shape=shape, seed=seed)[0]
    noisy = ls.datasets.corrupt(image, ls.Flips(0.1), seed=seed)
    return ls.Sum([(strength, cut) for cut in ls.grid_cuts(shape)]), 2.2 * (2.0 * noisy - 1.0)


def whole(f, theta, tie=None):
    return ls.maximize(f, np.asarray(theta).ravel(), tie=tie).y.reshape(theta.shape)


@pytest.mark.parametrize("number", range(3 * len(KINDS)))
def test_random_cases_equal_the_whole(number):
    case = make_case(number)
    found = case.tiles()
    assert found.proven
    np.testing.assert_array_equal(found.y, case.whole())


@pytest.mark.parametrize(
    ("neighbors", "side", "block", "halo", "seed"),
    [(4, 17, 5, 1, 324), (4, 17, 5, 2, 508), (4, 60, 16, 8, 96), (8, 60, 16, 8, 0)],
)
def test_a_neighbour_that_only_another_tile_proves(neighbors, side, block, halo, seed):
    """One tile proves a pixel in its margin that the pixel's own tile leaves open."""
    rng = np.random.default_rng(seed)
    shape = (12, 17) if side == 17 else (side, side)
    weights, theta = rng.uniform(0.2, 1.2, size=neighbors // 2), rng.normal(size=shape)
    f = ls.Sum(list(zip(weights.tolist(), ls.grid_cuts(shape, neighbors), strict=True)))
    found = ls.maximize_tiles(f, theta, block=block, halo=halo)
    assert found.reopened
    np.testing.assert_array_equal(found.y, whole(f, theta))


def test_both_builds_and_the_fallback_equal_the_whole(engine):
    for number in range(len(KINDS)):
        case = make_case(number)
        if case.theta.size < 1500:
            np.testing.assert_array_equal(case.tiles().y, case.whole())


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_do_not_change_the_result(n_jobs):
    f, theta = problem()
    np.testing.assert_array_equal(
        ls.maximize_tiles(f, theta, block=20, n_jobs=n_jobs).y, whole(f, theta)
    )


@pytest.mark.parametrize(
    ("shape", "neighbors", "seed"),
    [((30, 37), 4, 0), ((30, 37), 8, 1), ((6, 7, 8), 6, 2), ((6, 7, 8), 26, 3), ((50, 1), 4, 4)],
)
@pytest.mark.parametrize("tie", [None, "max"])
def test_conditioned_functions_and_models(shape, neighbors, seed, tie):
    rng = np.random.default_rng(seed)
    cuts = ls.grid_cuts(shape, neighbors)
    if seed % 2:
        cuts = [cut.with_weights(rng.exponential(size=cut.weights.shape)) for cut in cuts]
    f = ls.Sum([(0.8, cut) for cut in cuts]) + ls.Modular(rng.normal(size=np.prod(shape)))
    theta = rng.normal(size=shape)
    places = rng.choice(f.n, f.n // 6, replace=False).tolist()
    first = ls.LogSupermodular(f).condition({places.pop(): 1})
    model = first.condition(dict(zip(places, rng.integers(0, 2, f.n).tolist(), strict=False)))
    right = np.zeros(f.n, dtype=np.uint8)
    right[model.free] = ls.maximize(model.f, theta.ravel()[model.free], tie=tie).y
    options = {"block": 9, "halo": 2, "tie": tie}
    # a function does not know the values of the pixels that are gone
    given = np.where(np.isin(np.arange(f.n), model.free).reshape(shape), theta, np.nan)
    np.testing.assert_array_equal(
        ls.maximize_tiles(model.f, given, **options).y, right.reshape(shape)
    )
    right[list(model.fixed)] = list(model.fixed.values())
    found = ls.maximize_tiles(model, theta, **options)
    assert found.proven
    np.testing.assert_array_equal(found.y, right.reshape(shape))


@pytest.mark.parametrize("kind", ["memmap", "zarr", "dask"])
def test_conditioned_functions_on_other_arrays(kind, tmp_path):
    f, theta = problem((20, 24))
    model = ls.LogSupermodular(f).condition({(3, 4): 1, (10, 23): 0})
    right = ls.maximize_tiles(model, theta, block=8).y
    if kind == "dask":
        given = pytest.importorskip("dask.array").from_array(theta, chunks=9)
        found = ls.maximize_tiles(model, given).compute(scheduler="synchronous")
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr")
        given = zarr.create_array(str(tmp_path / "t"), shape=(20, 24), chunks=(8, 8), dtype="f8")
        given[:] = theta
        found = ls.maximize_tiles(model, given).y
    else:
        np.save(tmp_path / "theta.npy", theta)
        found = ls.maximize_tiles(model, np.load(tmp_path / "theta.npy", mmap_mode="r")).y
    np.testing.assert_array_equal(found, right)
    assert right[3, 4] == 1 and right[10, 23] == 0


@pytest.mark.parametrize("shape", [(30, 37), (8, 9, 10), (41,)])
def test_a_coupling_of_zero_leaves_the_signs(shape):
    rng = np.random.default_rng(0)
    theta, tilt = rng.normal(size=shape), rng.normal(size=shape)
    f = ls.Sum([(0.0, cut) for cut in ls.grid_cuts(shape)]) + ls.Modular(tilt.ravel())
    np.testing.assert_array_equal(ls.maximize_tiles(f, theta, block=9).y, theta > tilt)
    counts = ls.perturb_tiles(f, theta, 3, seed=0, block=9)
    right = ls.prepare([f]).perturb(theta.ravel(), [1.0], 3, seed=0)
    np.testing.assert_array_equal(counts.ravel() / 3, right.mean[0])


def test_terms_that_were_conditioned_on_different_pixels_are_refused():
    across, down = ls.grid_cuts((5, 5))
    f = across.condition({0: 1})[0] + down.condition({7: 1})[0]
    with pytest.raises(TypeError, match="conditioned on the same pixels"):
        ls.maximize_tiles(f, np.zeros((5, 5)))


def test_fields_are_not_overwritten():
    f, theta = problem((80, 16), strength=4.0)
    before = theta.copy()
    ls.maximize_tiles(f, theta, block=20, halo=1)
    np.testing.assert_array_equal(theta, before)


def test_a_larger_halo_proves_more():
    f, theta = problem(strength=4.0)
    opened = [ls.maximize_tiles(f, theta, block=16, halo=h).reopened for h in (0, 4, 16)]
    assert opened[0] > opened[1] > opened[2]


@pytest.mark.parametrize("tie", ["min", "max"])
def test_a_budget_says_which_pixels_are_open(tie):
    f, theta = problem(strength=6.0)
    right = whole(f, theta, tie)
    found = ls.maximize_tiles(f, theta, block=16, halo=2, budget=0, tie=tie)
    assert not found.proven and len(found.open) == found.reopened
    proven = np.ones(theta.size, dtype=bool)
    proven[found.open] = False
    np.testing.assert_array_equal(found.y.ravel()[proven], right.ravel()[proven])
    # an open pixel may have either label; its stored one is on the side of the tie rule
    sign = 1 if tie == "min" else -1
    assert (sign * found.y.astype(int) <= sign * right.astype(int)).all()
    done = ls.maximize_tiles(f, theta, block=16, halo=2, budget=theta.size, tie=tie)
    assert done.proven
    np.testing.assert_array_equal(done.y, right)


def as_graphs(monkeypatch):
    """Open pixels are solved as graphs of their own."""
    monkeypatch.setattr("logsuper.solvers._tile_open._DENSE", 0)


def as_boxes(monkeypatch):
    """Open pixels are solved in boxes around them."""
    monkeypatch.setattr("logsuper.solvers._tile_open._DENSE", 1 << 30)


def in_pieces(monkeypatch):
    """Graphs of few pixels, of whole components."""
    as_graphs(monkeypatch)
    monkeypatch.setattr("logsuper.solvers._tile_work.BYTES_PER_PIXEL", 3e3)


@pytest.mark.parametrize("way", [as_graphs, as_boxes, in_pieces])
def test_every_way_to_solve_open_pixels_equals_the_whole(way, monkeypatch):
    way(monkeypatch)
    opened = 0
    limit = 1e7 if way is in_pieces else None
    for number in range(2 * len(KINDS)):
        case = make_case(number)
        found = case.tiles(memory_limit=limit)
        opened += found.reopened > 0
        assert found.proven
        np.testing.assert_array_equal(found.y, case.whole())
    assert opened > len(KINDS) / 2


def test_many_graphs_of_whole_components(monkeypatch):
    in_pieces(monkeypatch)
    rng = np.random.default_rng(0)
    f = ls.Sum([(0.5, cut) for cut in ls.grid_cuts((120, 130), 8)])
    theta = rng.normal(scale=2.0, size=(120, 130))
    solved = []
    solve = _tile_work.Rest.solve
    monkeypatch.setattr(
        _tile_work.Rest, "solve", lambda rest, tie: solved.append(rest) or solve(rest, tie)
    )
    found = ls.maximize_tiles(f, theta, block=9, halo=0, memory_limit=1e6)
    assert found.proven and len(solved) > 3
    np.testing.assert_array_equal(found.y, whole(f, theta))


@pytest.mark.parametrize("halo", [0, 1, 2])
def test_too_many_open_pixels_get_a_larger_halo(halo, monkeypatch):
    f = ls.Sum([(0.6, cut) for cut in ls.grid_cuts((200, 230))])
    theta = np.random.default_rng(0).normal(size=(200, 230))
    few = ls.maximize_tiles(f, theta, block=16, halo=halo)
    monkeypatch.setattr("logsuper.solvers._tile_work.Work.most", 55 * 55)
    monkeypatch.setattr("logsuper.solvers._tile_work.BYTES_PER_PIXEL", 1e8)
    widened = []
    around = _tile_work.Work._around
    monkeypatch.setattr(
        _tile_work.Work, "_around", lambda *given: widened.append(given) or around(*given)
    )
    found = ls.maximize_tiles(f, theta, block=16, halo=halo, memory_limit=1e8)
    assert found.reopened == few.reopened and widened
    np.testing.assert_array_equal(found.y, whole(f, theta))


def test_tiles_that_prove_nothing_are_given_up_where_the_whole_fits():
    f = ls.Sum([(5.0, cut) for cut in ls.grid_cuts((300, 300))])
    theta = 0.1 * np.random.default_rng(0).normal(size=(300, 300))
    seen = []
    found = ls.maximize_tiles(f, theta, block=30, callback=seen.append)
    assert found.proven and found.tiles == 100
    assert [state.done for state in seen] == [*range(1, 9), 100] and seen[-1].total == 100
    # eight tiles with their halo, and once the whole
    assert theta.size < found.solved < 1.5 * theta.size
    np.testing.assert_array_equal(found.y, whole(f, theta))
    # not with a budget, which is for open pixels alone
    assert ls.maximize_tiles(f, theta, block=30, budget=0).reopened > 80_000


def test_what_does_not_fit_is_an_error_or_listed():
    f, theta = ls.Sum([(1.0, cut) for cut in ls.grid_cuts((200, 200))]), np.zeros((200, 200))
    with pytest.raises(MemoryError, match="connected pixels are not proven"):
        ls.maximize_tiles(f, theta, memory_limit=2e6)
    found = ls.maximize_tiles(f, theta, memory_limit=2e6, budget=1e9)
    assert not found.proven


@pytest.mark.skipif(kernels() is None, reason="counts the bytes of the kernel")
def test_memory_limit_chooses_the_block():
    f, theta = problem((300, 300))
    few = ls.maximize_tiles(f, theta, memory_limit=3e6)
    assert few.tiles > ls.maximize_tiles(f, theta, memory_limit=3e7).tiles
    np.testing.assert_array_equal(few.y, whole(f, theta))


# ---- arrays of other kinds -------------------------------------------------------------------


def test_memory_mapped_in_and_out(tmp_path):
    f, theta = problem()
    np.save(tmp_path / "theta.npy", theta)
    mapped = np.load(tmp_path / "theta.npy", mmap_mode="r")
    found = ls.maximize_tiles(f, mapped, block=32, out=tmp_path / "y.npy")
    assert isinstance(found.y, np.memmap)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), whole(f, theta))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["theta.npy", "y.npy"]


def test_zarr_in_and_out(tmp_path):
    zarr = pytest.importorskip("zarr")
    f, theta = problem(strength=4.0)
    stored = zarr.create_array(
        str(tmp_path / "t.zarr"), shape=theta.shape, chunks=(32, 32), dtype="f8"
    )
    stored[:] = theta
    found = ls.maximize_tiles(f, stored, block=32, halo=2, out=tmp_path / "y.zarr", n_jobs=2)
    assert found.reopened and isinstance(found.y, zarr.Array)
    np.testing.assert_array_equal(found.y[:], whole(f, theta))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_dask_is_lazy_and_equal():
    da = pytest.importorskip("dask.array")
    for number in (0, 1, 3, 5, 8, 9, 10, 14):
        case = make_case(number)
        lazy = da.from_array(case.theta, chunks=case.block)
        y = ls.maximize_tiles(
            case.f, lazy, edge_weights=case.edge_weights, halo=case.halo, tie=case.tie
        )
        assert isinstance(y, da.Array) and y.chunks == lazy.chunks and y.dtype == np.uint8
        np.testing.assert_array_equal(y.compute(scheduler="synchronous"), case.whole())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_lazy_weights_are_computed_as_parts_of_the_graph():
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(60, 70))
    across, down = rng.exponential(size=(60, 69)), rng.exponential(size=(59, 70))
    f = sum(ls.grid_cuts(theta.shape), start=ls.Modular(np.zeros(theta.size)))
    right = ls.maximize_tiles(f, theta, edge_weights=[across, down]).y
    lazy = [da.from_array(each, chunks=20) for each in (across, down)]
    for halo, chunks in ((3, 20), (0, 33)):
        y = ls.maximize_tiles(f, da.from_array(theta, chunks=chunks), edge_weights=lazy, halo=halo)
        np.testing.assert_array_equal(y.compute(scheduler="synchronous"), right)
        # one task holds all that was given, for a case that is rare
        sizes = [len(pickle.dumps(task)) for task in dict(y.dask).values()]
        assert sum(size > theta.nbytes / 2 for size in sizes) <= 1


@pytest.mark.parametrize(("kept", "times"), [(1 << 20, 1), (0, 2)])
def test_fields_that_are_too_large_to_keep_are_computed_twice(kept, times, monkeypatch):
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr("logsuper.solvers._tile_dask._KEPT", kept)
    f, theta = problem((40, 44))
    calls = []

    def compute(block):
        calls.append(block.shape)
        return block

    lazy = da.from_array(theta, chunks=22).map_blocks(compute, dtype=float, meta=np.empty((0, 0)))
    y = ls.maximize_tiles(f, lazy, halo=3).compute(scheduler="synchronous")
    assert len(calls) == 4 * times
    np.testing.assert_array_equal(y, whole(f, theta))


def test_what_lazy_labels_cannot_heed_is_refused():
    da = pytest.importorskip("dask.array")
    f, theta = problem((20, 20))
    for name, value in (
        ("block", 5),
        ("budget", 0),
        ("checkpoint", "x"),
        ("callback", print),
        ("n_jobs", 2),
        ("memory_limit", 1e9),
    ):
        with pytest.raises(ValueError, match=f"{name}: not for lazy labels"):
            ls.maximize_tiles(f, da.from_array(theta, chunks=9), **{name: value})


def test_an_existing_file_is_not_replaced(tmp_path):
    f, theta = problem((20, 20))
    (tmp_path / "y.npy").write_bytes(b"mine")
    with pytest.raises(ValueError, match="exists already"):
        ls.maximize_tiles(f, theta, out=tmp_path / "y.npy")
    with pytest.raises(ValueError, match=r"\.npy or \.zarr"):
        ls.maximize_tiles(f, theta, out=tmp_path / "y.png")


@pytest.mark.parametrize("name", ["y.npy", "y.zarr"])
def test_a_run_that_fails_leaves_no_file(name, tmp_path):
    pytest.importorskip("zarr")
    f, theta = problem((20, 20))

    def stop(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ls.maximize_tiles(f, theta, block=10, out=tmp_path / name, callback=stop)
    assert not list(tmp_path.iterdir())


# ---- progress and continuing -----------------------------------------------------------------


def test_progress_is_reported():
    f, theta = problem()
    seen = []
    found = ls.maximize_tiles(f, theta, block=30, callback=seen.append)
    assert [state.done for state in seen] == list(range(1, found.tiles + 1))
    assert {state.total for state in seen} == {found.tiles} and seen[-1].open == found.reopened


def test_finished_tiles_are_not_solved_again(tmp_path):
    f, theta = problem(strength=4.0)
    options = {"block": 20, "halo": 2, "checkpoint": tmp_path}

    def stop(state):
        if state.done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ls.maximize_tiles(f, theta, callback=stop, **options)
    begun = len(list(tmp_path.iterdir()))
    assert begun >= 7
    first = ls.maximize_tiles(f, theta, **options)
    assert first.solved < ls.maximize_tiles(f, theta, block=20, halo=2).solved
    np.testing.assert_array_equal(first.y, whole(f, theta))
    # other fields are another problem: their tiles are solved
    other = theta + 0.1
    np.testing.assert_array_equal(ls.maximize_tiles(f, other, **options).y, whole(f, other))


def test_a_damaged_checkpoint_is_solved_again(tmp_path):
    f, theta = problem()
    ls.maximize_tiles(f, theta, block=40, checkpoint=tmp_path)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    again = ls.maximize_tiles(f, theta, block=40, checkpoint=tmp_path)
    assert again.solved > 0
    np.testing.assert_array_equal(again.y, whole(f, theta))
    assert _tile_checkpoint.Checkpoint(tmp_path).folder == tmp_path


# ---- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"theta": np.zeros((3, 4))}, "theta has shape"),
        ({"theta": np.full((20, 20), np.nan)}, r"theta\[0, 0\] is NaN"),
        ({"f": ls.Cut(400, [(0, 1)])}, "tiles need a sum of the cuts of grid_cuts"),
        ({"f": ls.Modular(np.zeros(399))}, "f must have cuts of grid_cuts"),
        ({"theta": np.ma.masked_array(np.zeros((20, 20)), True)}, r"theta.filled\(0\)"),
        ({"edge_weights": [np.ma.ones((20, 19)), np.ones((19, 20))]}, "is a masked array"),
        ({"edge_weights": [np.ones((20, 19))]}, "edge_weights has 1 arrays"),
        ({"edge_weights": [np.ones((20, 19)), np.ones(3)]}, r"edge_weights\[1\] has shape"),
        ({"edge_weights": [-np.ones((20, 19)), np.ones((19, 20))]}, "finite and >= 0"),
        ({"tie": "both"}, "tie"),
        ({"block": 0}, "block"),
        ({"halo": -1}, "halo"),
        ({"budget": -1}, "budget"),
        ({"budget": "x"}, "budget must be a number"),
        ({"checkpoint": __file__}, "is a file; give the name of a folder"),
        ({"callback": 3}, "callback"),
    ],
)  # fmt: skip
def test_bad_input_is_named(change, message):
    f, theta = problem((20, 20))
    arguments = {"f": f, "theta": theta, **change}
    with pytest.raises((TypeError, ValueError), match=message):
        ls.maximize_tiles(arguments.pop("f"), arguments.pop("theta"), **arguments)


def test_too_small_a_memory_limit_is_an_error():
    f, theta = problem((20, 20))
    with pytest.raises(MemoryError, match="memory_limit is too small"):
        ls.maximize_tiles(f, theta, memory_limit=1000)


def test_dask_is_not_imported_for_arrays():
    code = (
        "import numpy as np, logsuper as ls, sys; f, g = ls.grid_cuts((9, 9));"
        "ls.maximize_tiles(f + g, np.ones((9, 9))); assert 'dask' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
