import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import logsuper as ls
from logsuper._base._files import load_arrays, save_arrays

CLEAN = ls.make_silhouettes(3, shape=(16, 16), seed=0)
NOISY = ls.Flips(0.1).sample(CLEAN, seed=1)
ROWS = np.array([[0, 0, 1], [1, 1, 1], [1, 1, 0], [0, 0, 0]])


@pytest.fixture(autouse=True)
def _short():
    """Whether a learner converged is not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        yield


DENOISERS = {
    "flips": {"noise": 0.1},
    "numpy numbers": {"noise": np.float64(0.1), "n_samples": np.int64(20)},
    "found": {"noise": "asymmetric"},
    "per pixel": {"noise": np.full((16, 16), 0.1), "modular": "pixel"},
    "groups": {"noise": ls.Flips([0.1, 0.2], groups=np.arange(256).reshape(16, 16) % 2)},
    "gaussian": {"noise": ls.Gaussian((0.0, 1.0), 0.5)},
    "missing": {"noise": ls.Missing(0.2, ls.AsymmetricFlips(0.1, 0.2))},
    "diagonals": {"neighbors": 8, "context": 0},
    "grids": {"neighbors": [*ls.grid_cuts((16, 16), spacing=(1.0, 2.0))]},
    "graph": {"neighbors": [ls.Cut(256, [(0, 255), (3, 4)], [1.0, 2.0])]},
    "sum": {"neighbors": [2.0 * ls.grid_cuts((16, 16))[0] + ls.Modular(np.arange(256.0))]},
    "map": {"decode": "map", "penalty": {"modular": 0.5}, "options": {"n_samples": 3}},
}


@pytest.mark.parametrize("name", DENOISERS)
def test_denoiser_round_trip(name, tmp_path):
    denoiser = ls.MaskDenoiser(**{"n_samples": 20, "max_iter": 5, **DENOISERS[name]}).fit(
        NOISY, CLEAN
    )
    denoiser.save(tmp_path / "model")
    loaded = ls.load_model(tmp_path / "model")
    assert type(loaded) is ls.MaskDenoiser
    for ask in ("predict", "predict_proba"):
        np.testing.assert_array_equal(getattr(loaded, ask)(NOISY), getattr(denoiser, ask)(NOISY))
    np.testing.assert_array_equal(loaded.modular_, denoiser.modular_)
    assert repr(loaded.channel_) == repr(denoiser.channel_)
    assert loaded.history_ == denoiser.history_ or "nan" in repr(denoiser.history_)
    assert (loaded.converged_, loaded.n_iter_, loaded.shape_) == (
        denoiser.converged_,
        denoiser.n_iter_,
        denoiser.shape_,
    )
    assert loaded.get_params().keys() == denoiser.get_params().keys()
    clone(loaded).fit(NOISY, CLEAN)
    assert ls.MaskDenoiser.load(tmp_path / "model").decode_factor_ == denoiser.decode_factor_


@pytest.mark.parametrize("scale", [0.5, (0.5, 0.5), (0.4, 0.6)])
@pytest.mark.parametrize("lost", [False, True])
def test_scales_that_are_tied_stay_so(scale, lost, tmp_path):
    channel = ls.Gaussian((0.0, 1.0), scale)
    grey = channel.sample(CLEAN, seed=2)
    given = ls.Missing(0.1, channel) if lost else channel
    ls.MaskDenoiser(given, max_iter=2).fit(grey, CLEAN).save(tmp_path / "model")
    loaded = ls.load_model(tmp_path / "model")
    for found in (loaded.channel_, loaded.noise):
        same = found.channel if lost else found
        assert same.tied == channel.tied
        counts = channel.count(grey, CLEAN)
        assert repr(same.refit(counts)) == repr(channel.refit(counts))


def test_a_file_with_a_pair_of_scales_for_one_is_read(tmp_path):
    denoiser = ls.MaskDenoiser(ls.Gaussian(scale=0.5), max_iter=2)
    denoiser.fit(ls.Gaussian(scale=0.5).sample(CLEAN, seed=2), CLEAN).save(tmp_path / "model")
    header, arrays = load_arrays(tmp_path / "model", "model", 1)
    arrays["pair"] = np.array([0.5, 0.5])
    header["fitted"]["channel_"]["parts"]["scale"] = {"is": "array", "parts": "pair"}
    save_arrays(tmp_path / "older", "model", 1, header, arrays)
    channel = ls.load_model(tmp_path / "older").channel_
    assert repr(channel) == repr(ls.Gaussian(scale=0.5)) and not channel.tied


def test_different_shapes_round_trip(tmp_path):
    images = [NOISY[0], NOISY[1][:, :12]]
    denoiser = ls.MaskDenoiser(noise=0.1, max_iter=5).fit(images, [CLEAN[0], CLEAN[1][:, :12]])
    denoiser.save(tmp_path / "model")
    for a, b in zip(
        ls.load_model(tmp_path / "model").predict(images), denoiser.predict(images), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "functions",
    [None, [ls.Cut(3, [(0, 1)])], [ls.ConcaveCardinality(np.sqrt, n=3, subset=[0, 2])]],
    ids=["default", "cut", "cardinality"],
)
def test_density_round_trip(functions, tmp_path):
    density = ls.LogSupermodularDensity(functions, max_iter=50).fit(ROWS)
    density.save(tmp_path / "model")
    loaded = ls.LogSupermodularDensity.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.score_samples(ROWS), density.score_samples(ROWS))
    np.testing.assert_array_equal(loaded.sample(5, 0), density.sample(5, 0))
    with pytest.raises(ValueError, match="a LogSupermodularDensity, not a MaskDenoiser"):
        ls.MaskDenoiser.load(tmp_path / "model")


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_and_callbacks_are_left_out(make, tmp_path):
    density = ls.LogSupermodularDensity(max_iter=50, random_state=make(0), callback=lambda _: None)
    density.fit(ROWS).save(tmp_path / "model")
    loaded = ls.load_model(tmp_path / "model")
    assert loaded.random_state is None and loaded.callback is None


REFUSED = {
    "callable": (
        ls.MaskDenoiser(max_iter=5, neighbors=ls.grid_cuts),
        "neighbors is a function, which a file without code",
    ),
    "family": (
        ls.MaskDenoiser(max_iter=5, neighbors=[ls.PnPotts(256, [[0, 1, 2]])]),
        r"neighbors\[0\] is PnPotts.*pickle the estimator",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_file_cannot_hold_is_refused(case, tmp_path):
    denoiser, message = REFUSED[case]
    denoiser.fit(NOISY, CLEAN)
    with pytest.raises(TypeError, match=message):
        denoiser.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_unfitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        ls.MaskDenoiser().save(tmp_path / "model")


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(FileNotFoundError):
        ls.load_model(path)
    ls.LogSupermodularDensity(max_iter=50).fit(ROWS).save(path)
    data = path.read_bytes()
    for cut in (0, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(ValueError, match="truncated or corrupted"):
            ls.load_model(path)
    rng = np.random.default_rng(0)
    for _ in range(100):
        broken = bytearray(data)
        broken[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="truncated or corrupted"):
            ls.load_model(path)


def test_newer_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "model"
    ls.LogSupermodularDensity(max_iter=50).fit(ROWS).save(path)
    header, arrays = load_arrays(path, "model", 1)
    save_arrays(path, "model", 2, header, arrays)
    with pytest.raises(ValueError, match="written by a newer logsuper"):
        ls.load_model(path)
    save_arrays(path, "checkpoint", 1, header, arrays)
    with pytest.raises(ValueError, match="a checkpoint of logsuper, not a model"):
        ls.load_model(path)
    for change in (
        {"estimator": "Popen"},
        {"params": {"magic": 1}},
        {"params": {"noise": {"is": "system", "parts": {"rate": 1}}}},
        {"fitted": {}},
        {"fitted": {**header["fitted"], "n_features_in_": 7}},
        {"fitted": {**header["fitted"], "parameters_": 3}},
        {"fitted": {**header["fitted"], "history_": {"is": "list", "parts": [1]}}},
        {"fitted": {**header["fitted"], "learner_": "magic"}},
    ):
        save_arrays(path, "model", 1, {**header, **change}, arrays)
        with pytest.raises(ValueError, match="malformed"):
            ls.load_model(path)


# ------------------------------------------------------------------------------- strangers' files

BILLIONS = 2**31 - 1


def claims(path, **fitted):
    """Write a model of a few hundred bytes that says of itself what is given; return its size."""
    empty = {"is": "list", "parts": []}
    parameters = {"alpha": {"is": "list", "parts": [1.0]}, "modular": empty, "beta": empty}
    header = {
        "estimator": "LogSupermodularDensity",
        "params": {},
        "fitted": {
            "parameters_": {"is": "parameters", "parts": {**parameters, "scale": 1.0}},
            "learner_": "exact",
            "n_features_in_": BILLIONS,
            "history_": {"is": "tuple", "parts": []},
            "converged_": True,
            **fitted,
        },
    }
    arrays = {"one": np.array([2.0]), "two": np.array([1.0, 2.0])}
    save_arrays(path, "model", 1, header, arrays)
    return path.stat().st_size


def one(kind, **parts):
    return {"is": "tuple", "parts": [{"is": kind, "parts": parts}]}


def numbers(*parts):
    return {"is": "list", "parts": list(parts)}


def pair(*parts):
    return {"is": "tuple", "parts": list(parts)}


EDGE = {"n": BILLIONS, "edges": numbers(numbers(0, 1)), "weights": 1.0}
GRID = {"shape": pair(40_000, 40_000), "offset": pair(0, 1)}
STRANGERS = {
    "count of n": one("cardinality", g=numbers(0.0, 1.0), n=BILLIONS, subset=None),
    "count of few": one("cardinality", g=numbers(0.0, 1.0), n=BILLIONS, subset=numbers(5)),
    "cut": one("cut", **EDGE),
    "sum of nothing": one("sum", weights=numbers(0.0), atoms=numbers({"is": "cut", "parts": EDGE})),
    "grid": one("grid", **GRID, weights={"is": "array", "parts": "one"}),
    "grid, too few weights": one("grid", **GRID, weights={"is": "array", "parts": "two"}),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_small_file_takes_little_memory_and_time(name, tmp_path, traced):
    size = claims(tmp_path / "model", functions_=STRANGERS[name])
    assert size < 2500

    def load():
        try:
            ls.load_model(tmp_path / "model")
        except ValueError as error:
            assert "malformed" in str(error)

    assert traced(load) < 300_000


def test_one_array_is_not_copied_to_many_places(tmp_path, traced):
    count, size = 2000, 100_000
    place = {"is": "modular", "parts": {"t": {"is": "array", "parts": "a0"}}}
    header = {
        "estimator": "LogSupermodularDensity",
        "params": {"functions": pair(*[place] * count)},
    }
    save_arrays(tmp_path / "model", "model", 1, {**header, "fitted": {}}, {"a0": np.ones(size)})

    def load():
        with pytest.raises(ValueError, match="malformed"):
            ls.load_model(tmp_path / "model")

    assert traced(load) < 20 * (tmp_path / "model").stat().st_size


@pytest.mark.parametrize("name", ["_key", "learner_", "parameters_", "_design", "channel_"])
def test_a_model_without_a_part_is_refused(tmp_path, name):
    ls.MaskDenoiser(0.1, max_iter=2).fit(NOISY, CLEAN).save(tmp_path / "model")
    header, arrays = load_arrays(tmp_path / "model", "model", 1)
    del header["fitted"][name]
    save_arrays(tmp_path / "model", "model", 1, header, arrays)
    with pytest.raises(ValueError, match=f"malformed .*{name}"):
        ls.load_model(tmp_path / "model")


def test_a_huge_number_of_axes_is_refused(tmp_path, traced):
    ls.MaskDenoiser(0.1, max_iter=2).fit(NOISY, CLEAN).save(tmp_path / "model")
    header, arrays = load_arrays(tmp_path / "model", "model", 1)
    header["fitted"]["_design"]["parts"]["axes"] = BILLIONS
    save_arrays(tmp_path / "model", "model", 1, header, arrays)

    def load():
        with pytest.raises(ValueError, match=r"malformed .*_design is not what it should be"):
            ls.load_model(tmp_path / "model")

    assert traced(load) < 10**6


def test_a_file_does_not_choose_where_a_fit_writes(tmp_path):
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    options = {"checkpoint": mine, "n_samples": 3}
    ls.MaskDenoiser(0.1, max_iter=2, options=options).fit(NOISY, CLEAN).save(tmp_path / "model")
    assert ls.load_model(tmp_path / "model").options == {"n_samples": 3}
    header, arrays = load_arrays(tmp_path / "model", "model", 1)
    header["params"]["options"]["parts"]["checkpoint"] = str(theirs)
    save_arrays(tmp_path / "model", "model", 1, header, arrays)
    ls.load_model(tmp_path / "model").fit(NOISY, CLEAN)
    assert not theirs.exists()


def test_loading_does_not_infer(tmp_path, monkeypatch):
    density = ls.LogSupermodularDensity(max_iter=50).fit(ROWS)
    density.save(tmp_path / "model")
    bracket = ls.LogSupermodular.bracket
    calls = []
    monkeypatch.setattr(
        ls.LogSupermodular, "bracket", lambda *a, **k: calls.append(1) or bracket(*a, **k)
    )
    loaded = ls.load_model(tmp_path / "model")
    assert not calls
    assert loaded.bracket_ == density.bracket_ and len(calls) == 1
    assert repr(loaded.model_.f) == repr(density.model_.f)
    np.testing.assert_array_equal(loaded.modular_, density.modular_)


def test_files_with_the_earlier_names_of_parameters_are_read(tmp_path):
    options = {"n_samples": 3, "max_iter": 2}
    denoiser = ls.MaskDenoiser(0.1, n_samples=20, learner="saa", options=options)
    denoiser.fit(NOISY, CLEAN).save(tmp_path / "model")
    header, arrays = load_arrays(tmp_path / "model", "model", 1)
    params = header["params"]
    params["samples"] = params.pop("n_samples")
    params["options"]["parts"] = {"samples": 3, "max_rounds": 2}
    save_arrays(tmp_path / "older", "model", 1, header, arrays)
    loaded = ls.load_model(tmp_path / "older")
    assert (loaded.n_samples, loaded.options) == (20, options)
    np.testing.assert_array_equal(loaded.predict_proba(NOISY), denoiser.predict_proba(NOISY))
