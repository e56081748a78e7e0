import numpy as np
import pytest
import scipy

from logsuper._base._files import save_arrays
from logsuper.experiments import Job, _job
from logsuper.experiments._job import Part, Partial

ARGUMENTS = {"decays": (1.0, 3.0), "points": 50}


def test_every_digit_and_what_is_not_known_come_back(tmp_path, seed):
    array = np.random.default_rng(seed).normal(size=(2, 3, 4)) * 10.0 ** np.arange(-150, 150, 75)
    array[0, 1, 2] = np.nan
    Partial(tmp_path / "new", ARGUMENTS).store("part", array)
    again = Partial(tmp_path / "new", ARGUMENTS).load("part", array.shape)
    assert np.array_equal(again, array, equal_nan=True)


@pytest.mark.parametrize("other", [{"points": 51}, {"decays": (1.0,)}, {"more": None}])
def test_other_arguments_do_not_find_it(tmp_path, other):
    Partial(tmp_path, ARGUMENTS).store("part", np.zeros(3))
    assert Partial(tmp_path, {**ARGUMENTS, **other}).load("part", (3,)) is None
    assert Partial(tmp_path, ARGUMENTS).load("other", (3,)) is None


def test_other_source_does_not_find_it(tmp_path, monkeypatch):
    Partial(tmp_path, ARGUMENTS).store("part", np.zeros(3))
    monkeypatch.setattr(_job, "source", lambda: "another")
    assert Partial(tmp_path, ARGUMENTS).load("part", (3,)) is None


def test_the_origin_is_all_code_that_numbers_depend_on(tmp_path, monkeypatch):
    source = _job.source.__wrapped__  # without what it remembers
    package = tmp_path / "logsuper"
    package.mkdir()
    (package / "__init__.py").write_text("")
    kernel = package / "_kernels.so"
    kernel.write_bytes(b"compiled")
    module = type(np)("logsuper._kernels")
    module.__file__ = str(kernel)
    monkeypatch.setattr(_job.logsuper, "__file__", str(package / "__init__.py"))
    monkeypatch.setattr(_job, "kernels", lambda: module)
    found = [source(), source()]
    assert found[0] == found[1]
    kernel.write_bytes(b"Compiled")
    found.append(source())
    monkeypatch.setattr(_job, "kernels", lambda: None)
    found.append(source())
    for library in (np, scipy):
        monkeypatch.setattr(library, "__version__", "0.0")
        found.append(source())
    (package / "__init__.py").write_text("#")
    found.append(source())
    assert len(set(found)) == len(found) - 1


@pytest.mark.parametrize("damage", [b"", b"{", b"PK", b"{}", b"\x00"])
def test_a_damaged_file_is_as_good_as_none(tmp_path, damage):
    store = Partial(tmp_path, ARGUMENTS)
    store.store("part", np.zeros(3))
    store.path("part").write_bytes(damage)
    with pytest.warns(RuntimeWarning, match=r"part-.*corrupted.*; this part is computed again"):
        assert store.load("part", (3,)) is None


def test_a_changed_byte_is_never_believed(tmp_path):
    store = Partial(tmp_path, ARGUMENTS)
    store.store("part", np.arange(3.0))
    path = store.path("part")
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        broken = bytearray(whole)
        broken[place] ^= 1
        path.write_bytes(broken)
        with pytest.warns(RuntimeWarning, match="computed again"):
            assert store.load("part", (3,)) is None


def test_a_damaged_part_is_computed_again(tmp_path):
    part = Part("two", np.array, {"object": [1.0, 2.0]}, (2,))
    Job(partial=tmp_path).do([part], {})
    [path] = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole.replace(np.float64(2.0).tobytes(), np.float64(3.0).tobytes()))
    with pytest.warns(RuntimeWarning, match="computed again"):
        found = Job(partial=tmp_path).do([part], {})
    assert found["two"].tolist() == [1.0, 2.0]
    assert path.read_bytes() == whole


def test_a_file_of_the_wrong_size_or_run_is_as_good_as_none(tmp_path):
    store = Partial(tmp_path, ARGUMENTS)
    store.store("part", np.zeros(3))
    with pytest.warns(RuntimeWarning, match=r"holds float64 \(3,\), not \(4,\)"):
        assert store.load("part", (4,)) is None
    path = store.path("part")
    save_arrays(path, "part", 1, {"arguments": {"points": 1}}, {"result": np.zeros(3)})
    with pytest.warns(RuntimeWarning, match="belongs to another run"):
        assert store.load("part", (3,)) is None
    save_arrays(path, "part", 1, {}, {"other": np.zeros(3)})
    with pytest.warns(RuntimeWarning, match="computed again"):
        assert store.load("part", (3,)) is None
