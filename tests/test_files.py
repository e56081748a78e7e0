import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logsuper._base._files import atomic_write, load_arrays, save_arrays


def test_writes_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "a" / "b" / "file.bin"
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == ["file.bin"]


def test_target_is_untouched_until_the_end(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("existed", [True, False])
def test_failure_keeps_the_old_file(tmp_path, existed):
    path = tmp_path / "file.bin"
    if existed:
        path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="half way"), atomic_write(path) as file:
        file.write(b"ne")
        raise RuntimeError("half way")
    assert os.listdir(tmp_path) == (["file.bin"] if existed else [])
    if existed:
        assert path.read_bytes() == b"old"


def test_symbolic_link_is_followed(tmp_path):
    real, link = tmp_path / "real.bin", tmp_path / "link.bin"
    real.write_bytes(b"old")
    link.symlink_to(real)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_mode_is_that_of_any_new_file_or_of_the_old_one(tmp_path):
    plain, path = tmp_path / "plain", tmp_path / "file.bin"
    plain.touch()
    with atomic_write(path):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    with atomic_write(path):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_folder_is_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"), atomic_write(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------------------ what a kill leaves behind

WRITER = """
import sys, time
from logsuper._base._files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path):
    """A process that is in the middle of writing a file."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / "theirs.bin")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"writing\n"
        yield process
        process.kill()


def _parts(folder):
    return [name for name in os.listdir(folder) if name.endswith(".part")]


def test_temporary_files_of_killed_processes_are_removed(tmp_path, writer):
    assert len(_parts(tmp_path)) == 1
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert len(_parts(tmp_path)) == 1
    with atomic_write(tmp_path / "mine.bin") as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == ["mine.bin"]


def test_temporary_files_of_live_processes_and_of_others_stay(tmp_path, writer):
    others = [".0123456789abcdef.part", "0123456789abcdef.logsuper.part", ".x.logsuper.part"]
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / ".0123456789abcdef.logsuper.part").symlink_to(tmp_path / others[0])
    before = set(os.listdir(tmp_path))
    with atomic_write(tmp_path / "mine.bin") as file:
        file.write(b"new")
    assert set(os.listdir(tmp_path)) == before | {"mine.bin"}


def test_writers_side_by_side_do_not_remove_each_other_s_files(tmp_path):
    errors = []

    def write(number):
        try:
            for _ in range(50):
                with atomic_write(tmp_path / f"{number}.bin") as file:
                    file.write(b"new")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(os.listdir(tmp_path)) == [f"{i}.bin" for i in range(6)]


def test_long_names_can_be_written(tmp_path):
    with atomic_write(tmp_path / ("x" * 250)) as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == ["x" * 250]


# ------------------------------------------------------------------------------ arrays and header

HEADER = {"name": "möbel", "rates": [0.1, float("inf")], "none": None, "nested": {"a": True}}


def _arrays():
    rng = np.random.default_rng(0)
    return {
        "t": rng.normal(size=(3, 4)),
        "columns": np.asfortranarray(rng.normal(size=(4, 3))),
        "codes": rng.integers(0, 3, size=5).astype(np.uint8),
        "flags": np.array([True, False]),
        "scalar": np.array(2.5),
        "nothing": np.empty((0, 7)),
        "special": np.array([np.nan, -0.0, -np.inf]),
    }


def _same(found, arrays):
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def _save(path):
    save_arrays(path, "model", 3, HEADER, _arrays())
    return path


def _archive(path, members, compression=zipfile.ZIP_STORED):
    """Write any archive, well-formed or not in what it holds."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def _npy(shape, dtype, data=b""):
    stream = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + data


def test_arrays_and_header_come_back(tmp_path):
    path = _save(tmp_path / "folder" / "a.model")
    header, arrays = load_arrays(path, "model", 3)
    assert header == HEADER
    _same(arrays, _arrays())
    assert all(array.flags.writeable for array in arrays.values())
    assert os.listdir(path.parent) == ["a.model"]
    load_arrays(path, "model", 4)
    with np.load(path, allow_pickle=False) as plain:
        assert set(plain.files) == {"header", *_arrays()}


def test_writing_twice_gives_the_same_bytes(tmp_path):
    assert _save(tmp_path / "a").read_bytes() == _save(tmp_path / "b").read_bytes()


def test_what_a_file_cannot_hold_is_refused_before_writing(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(TypeError, match=r"arrays\['bad'\] has dtype object"):
        save_arrays(path, "model", 1, {}, {"bad": np.array([None])})
    with pytest.raises(ValueError, match="name 'header'"):
        save_arrays(path, "model", 1, {}, {"header": np.zeros(1)})
    with pytest.raises(TypeError):
        save_arrays(path, "model", 1, {"bad": np.zeros(1)}, {})
    assert not os.listdir(tmp_path)


def test_other_kinds_and_newer_versions_are_refused(tmp_path):
    path = _save(tmp_path / "a")
    with pytest.raises(ValueError, match=rf"{re.escape(str(path))}: a model .* not a checkpoint"):
        load_arrays(path, "checkpoint", 3)
    with pytest.raises(ValueError, match=r"version 3 .*newer logsuper.*upgrade"):
        load_arrays(path, "model", 2)
    with pytest.raises(FileNotFoundError):
        load_arrays(tmp_path / "absent", "model", 3)


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"not a zip file at all", b"\x93NUMPY\x01\x00", b"\x80\x04."],
    ids=["empty", "magic", "text", "npy", "pickle"],
)
def test_strangers_are_refused(tmp_path, content):
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: not a file of logsuper"):
        load_arrays(path, "model", 3)


def test_archives_that_lie_are_refused(tmp_path):
    def refuse(members, why, **options):
        path = _archive(tmp_path / "a", members, **options)
        with pytest.raises(ValueError, match=why) as error:
            load_arrays(path, "model", 1)
        assert str(path) in str(error.value)

    def text(**changes):
        about = {"kind": "model", "version": 1, "header": {}, "arrays": [], **changes}
        data = json.dumps(about).encode()
        return _npy((len(data),), "|u1", data)

    load_arrays(_archive(tmp_path / "good", {"header.npy": text()}), "model", 1)
    refuse({"header.npy": text(arrays=["t"])}, "an array is missing")
    refuse({"header.npy": text(), "t.npy": _npy((1,), "|O", b".")}, "does not hold numbers")
    refuse({"header.npy": text(arrays=["t"]), "t.npy": _npy((10**12,), "<f8")}, "not as many")
    refuse({"header.npy": text(arrays=["t"]), "t.npy": _npy((0, 3), "<f8", b"1")}, "not as many")
    refuse({"header.npy": text(version="1")}, "header is malformed")
    refuse({"header.npy": text(version=True)}, "header is malformed")
    refuse({"header.npy": text(kind="\x1b[2J" * 1000)}, "header is malformed")
    refuse({"header.npy": text(checksum="sha256")}, "its checksum is missing")
    refuse({"header.npy": text(header=[])}, "header is malformed")
    refuse({"header.npy": _npy((100_000,), "|u1", b"[" * 100_000)}, "not a file of logsuper")
    refuse({"t.npy": _npy((0,), "<f8")}, "not a file of logsuper")
    bomb = {"header.npy": text(arrays=["t"]), "t.npy": _npy((10**6,), "|u1", bytes(10**6))}
    refuse(bomb, "compressed", compression=zipfile.ZIP_DEFLATED)


@given(st.data())
@settings(max_examples=300)
def test_damage_is_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damage") / "a"
    whole = _save(path).read_bytes()
    start = data.draw(st.integers(0, len(whole) - 1))
    replacement = data.draw(st.binary(max_size=12))
    end = data.draw(st.integers(start, min(start + 12, len(whole))))
    tail = whole[end:] if data.draw(st.booleans()) else b""
    damaged = whole[:start] + replacement + tail
    path.write_bytes(damaged)
    if damaged == whole:
        load_arrays(path, "model", 3)
        return
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: not a file of logsuper"):
        load_arrays(path, "model", 3)


def test_any_changed_byte_is_refused(tmp_path):
    path = _save(tmp_path / "a")
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: not a file of logsuper"):
            load_arrays(path, "model", 3)
    for longer in (whole + b"\0", b"\0" + whole):
        path.write_bytes(longer)
        with pytest.raises(ValueError, match="checksum"):
            load_arrays(path, "model", 3)


def test_files_from_before_there_were_checksums_are_read(tmp_path):
    path = tmp_path / "a"
    about = {"kind": "model", "version": 3, "header": HEADER, "arrays": list(_arrays())}
    text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    with open(path, "wb") as file:
        np.savez(file, header=text, **_arrays())
    header, arrays = load_arrays(path, "model", 3)
    assert header == HEADER
    _same(arrays, _arrays())
