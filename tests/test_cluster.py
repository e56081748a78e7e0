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
