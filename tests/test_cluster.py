"""A real cluster: two worker processes give the same bits as one thread, also if one is killed."""

import contextlib
import os
import re
import signal
import threading
import time
from pathlib import Path

import joblib
import numpy as np
import pytest

import logsuper as ls

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

pytestmark = [
    # of dask's own shutdown
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::logsuper.ConvergenceWarning"),  # of short fits
]


@pytest.fixture(scope="module")
def client():
    """Two worker processes."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


def problem(shape=(160, 150), strength=3.0):
    image = ls.make_silhouettes(1, shape=shape, seed=0)[0]
    noisy = ls.datasets.corrupt(image, ls.Flips(0.1), seed=0)
    return ls.Sum([(strength, cut) for cut in ls.grid_cuts(shape)]), 2.2 * (2.0 * noisy - 1.0)


def test_lazy_labels_are_those_of_the_whole(client):
    f, theta = problem()
    lazy = ls.maximize_tiles(f, da.from_array(theta, chunks=40), halo=3)
    right = ls.maximize(f, theta.ravel()).y.reshape(theta.shape)
    np.testing.assert_array_equal(lazy.compute(), right)


def test_joblib_sends_tiles_to_the_cluster(client):
    f, theta = problem((60, 64), 1.0)
    right = ls.maximize_tiles(f, theta, block=30)
    narrow = ls.marginals_tiles(f, theta, block=32, width=0.5, window=6)
    counts = ls.perturb_tiles(f, theta, 2, seed=0, block=40)
    with joblib.parallel_config(backend="dask"):
        np.testing.assert_array_equal(ls.maximize_tiles(f, theta, block=30).y, right.y)
        found = ls.marginals_tiles(f, theta, block=32, width=0.5, window=6)
        np.testing.assert_array_equal(ls.perturb_tiles(f, theta, 2, seed=0, block=40), counts)
    lazy = ls.marginals_tiles(f, da.from_array(theta, chunks=32), block=32, width=0.5, window=6)
    for other in (found, lazy):
        np.testing.assert_array_equal(other.lower, narrow.lower)
        np.testing.assert_array_equal(other.upper, narrow.upper)


def test_tasks_of_a_cluster_are_reported_and_resumed(client, tmp_path):
    f, theta = problem((60, 64), 1.0)
    told, options = [], {"block": 30, "checkpoint": tmp_path}
    with joblib.parallel_config(backend="dask"):
        first = ls.maximize_tiles(f, theta, callback=told.append, **options)
        again = ls.maximize_tiles(f, theta, **options)
    assert [state.done for state in told] == list(range(1, first.tiles + 1))
    assert again.solved < first.solved
    np.testing.assert_array_equal(again.y, first.y)


def test_arrays_that_workers_hold(client):
    f, theta = problem((60, 64), 1.0)
    factors = [np.full((60, 63), 0.5), np.full((59, 64), 2.0)]
    right = ls.maximize_tiles(f, theta, edge_weights=factors).y
    held = da.from_array(theta, chunks=25).persist()
    lazy = [da.from_array(each, chunks=25).persist() for each in factors]
    found = ls.maximize_tiles(f, held, edge_weights=lazy, halo=3).compute()
    np.testing.assert_array_equal(found, right)
    # from this process too, and where the fields are so small that they are read again
    y = np.empty(theta.shape, dtype=np.uint8)
    ls.maximize_tiles(f, held, edge_weights=lazy, out=y)
    np.testing.assert_array_equal(y, right)
    bounds = ls.marginals_tiles(f, theta, edge_weights=factors, block=30, width=0.5)
    for given in (theta, held):
        found = ls.marginals_tiles(f, given, edge_weights=lazy, block=30, width=0.5)
        np.testing.assert_array_equal(np.asarray(found.lower), bounds.lower)
    tiny = (1e-12 * da.from_array(theta, chunks=25)).persist()
    right = ls.maximize_tiles(f, 1e-12 * theta, edge_weights=factors).y
    found = ls.maximize_tiles(f, tiny, edge_weights=lazy, halo=3).compute()
    np.testing.assert_array_equal(found, right)


def test_a_killed_worker_costs_time_only(client):
    f, theta = problem()
    slow = da.from_array(theta, chunks=40).map_blocks(_slowly, dtype=float)
    lazy = ls.maximize_tiles(f, slow, halo=3)
    victim = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
    timer.start()
    found = lazy.compute()
    timer.join()
    right = ls.maximize(f, theta.ravel()).y.reshape(theta.shape)
    np.testing.assert_array_equal(found, right)
    assert victim not in client.run(os.getpid).values()


def masks(count=40, shape=(20, 24)):
    clean = ls.make_silhouettes(count, shape=shape, seed=0)
    return ls.Flips(0.1).sample(clean, seed=1), clean


@pytest.mark.parametrize("learner", ["exact", "saa"])
def test_fit_gives_the_same_bits(client, learner, monkeypatch):
    monkeypatch.setattr("logsuper.learning._team._PIXELS", 4 * 20 * 24)
    monkeypatch.setattr("logsuper.learning._team._LEAST_SECONDS", 0.0)
    noisy, clean = masks()
    options = {"learner": learner, "max_iter": 1, "modular": "shared"}
    if learner == "exact":
        options["options"] = {"window": 3}
    else:
        options["max_iter"] = 40
    right = ls.MaskDenoiser(0.1, **options).fit(noisy, clean)
    with joblib.parallel_config(backend="dask"):
        found = ls.MaskDenoiser(0.1, **options).fit(noisy, clean)
    assert client.run(_count_parts) != dict.fromkeys(client.run(os.getpid), 0)
    assert right.alpha_.any() and right.filter_.any()
    np.testing.assert_array_equal(found.alpha_, right.alpha_)
    np.testing.assert_array_equal(found.filter_, right.filter_)


def test_fit_survives_a_killed_worker(client, monkeypatch):
    monkeypatch.setattr("logsuper.learning._team._PIXELS", 4 * 20 * 24)
    monkeypatch.setattr("logsuper.learning._team._LEAST_SECONDS", 0.0)
    noisy, clean = masks()
    killed = []

    def kill(record):
        if record.step == 2 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    options = {"max_iter": 8, "modular": "shared", "tol": 0.5}
    right = ls.MaskDenoiser(0.1, "max_margin", **options).fit(noisy, clean)
    with joblib.parallel_config(backend="dask"):
        found = ls.MaskDenoiser(0.1, "max_margin", callback=kill, **options).fit(noisy, clean)
    assert killed and killed[0] not in client.run(os.getpid).values()
    np.testing.assert_array_equal(found.alpha_, right.alpha_)


def test_predictions_of_many_images(client, monkeypatch, tmp_path):
    monkeypatch.setattr("logsuper.estimators._spread._LEAST", 1000)
    noisy, clean = masks()
    model = ls.MaskDenoiser(0.1, modular="shared", max_iter=40, tol=0.1).fit(noisy, clean)
    images = [*noisy[:-3], noisy[-3, :17], noisy[-2, :, :19]]
    for method, given in ((model.predict, noisy), (model.predict_proba, images)):
        right = method(given)
        with joblib.parallel_config(backend="dask"):
            found = method(given)
        assert type(found) is type(right)
        for a, b in zip(found, right, strict=True):
            np.testing.assert_array_equal(a, b)
    for i, image in enumerate(noisy):
        ls.io.write_image(tmp_path / f"{i:02d}.png", image.astype(np.uint8))
    files = ls.io.ImageFiles(tmp_path, memory_limit=0)
    with joblib.parallel_config(backend="dask"):
        found = model.predict(files)
    np.testing.assert_array_equal(found, model.predict(noisy))


def _count_parts():
    from logsuper.learning import _team

    return len(_team._HELD)


def test_page_on_tiles_runs(client, monkeypatch):
    # starting a second cluster would take longer than all else
    monkeypatch.setattr(
        distributed, "LocalCluster", lambda **options: contextlib.nullcontext(client.cluster)
    )
    text = (Path(__file__).parents[1] / "docs" / "guides" / "tiles.md").read_text(encoding="utf-8")
    first, second = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(first, names)
    own, counts = names["marginals"], names["counts"]
    assert names["found"].proven and counts.max() == 4
    exec(second, names)
    np.testing.assert_array_equal(names["labels"], names["found"].y)
    np.testing.assert_array_equal(names["marginals"].lower, own.lower)


def _slowly(block):
    time.sleep(0.1)
    return block
