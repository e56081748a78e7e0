import os
import stat

import pytest

from logsuper._files import atomic_write


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
