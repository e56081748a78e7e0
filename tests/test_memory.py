"""What the machine has left, and what is refused for want of it."""

import os
import subprocess
import sys

import numpy as np
import pytest

from logsuper._base import _memory
from logsuper._base._memory import as_text, available_memory, check_limit, require_memory


def test_available_memory_is_that_of_the_machine():
    found = available_memory()
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found is not None
    assert 0 < found <= total


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_limit_on_the_address_space_counts():
    code = (
        "import resource; from logsuper._base._memory import available_memory as a;"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)); print(a())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1 << 28 < int(done.stdout) < 3 << 30


def group(folder, limit, usage, droppable, names):
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip(
        names, (limit, usage, f"anon 5\n{names[3]} {droppable}\n"), strict=False
    ):
        (folder / name).write_text(f"{value}\n")


V2 = ("memory.max", "memory.current", "memory.stat", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "total_inactive_file")


def left(root, line):
    (root / "membership").write_text(line)
    return list(_memory._left_by_cgroups(root, root / "membership"))


def test_groups_of_version_2_count_with_those_above_them(tmp_path):
    group(tmp_path / "a", 1000, 600, 50, V2)
    group(tmp_path / "a" / "b", "max", 300, 0, V2)
    group(tmp_path / "a" / "b" / "c", 700, 100, 10, V2)
    assert sorted(left(tmp_path, "0::/a/b/c\n")) == [450, 610]


def test_groups_of_version_1(tmp_path):
    group(tmp_path / "memory" / "job", 800, 500, 100, V1)
    assert left(tmp_path, "3:cpu:/x\n2:memory:/job\n0::/\n") == [400]


def test_a_container_sees_its_own_group_at_the_root(tmp_path):
    group(tmp_path, 900, 200, 0, V2)
    assert left(tmp_path, "0::/kubepods/pod7/beyond\n") == [700]


def test_nothing_is_known_without_groups(tmp_path):
    assert list(_memory._left_by_cgroups(tmp_path, tmp_path / "absent")) == []
    assert left(tmp_path, "nonsense\n0::/a\n") == []


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [(None, None), (10, 10), (2e9, 2 * 10**9), (np.int64(7), 7), (np.inf, sys.maxsize), (0, 0)],
)
def test_limits(given, bytes_):
    assert check_limit(given) == bytes_


@pytest.mark.parametrize("given", ["2GB", b"1", True, [1], 1j])
def test_limits_of_another_kind_are_refused(given):
    with pytest.raises(TypeError, match="memory_limit"):
        check_limit(given)


@pytest.mark.parametrize("given", [-1, -0.5, np.nan, -np.inf])
def test_limits_below_nothing_are_refused(given):
    with pytest.raises(ValueError, match="memory_limit"):
        check_limit(given)


def test_refusal_says_what_is_needed_what_there_is_and_what_to_do(monkeypatch):
    monkeypatch.setattr(_memory, "available_memory", lambda: 5 * 10**9)
    with pytest.raises(MemoryError, match=r"perturb needs 20 GB .*available are 5 GB: take fewer"):
        require_memory(2e10, None, "perturb", "take fewer")
    with pytest.raises(MemoryError, match="memory_limit is 1 kB"):
        require_memory(2e3, 1000, "perturb", "take fewer")
    assert require_memory(4e9, None, "perturb", "") == 5 * 10**9


def test_small_calls_do_not_ask_the_system(monkeypatch):
    monkeypatch.setattr(_memory, "available_memory", lambda: pytest.fail("asked"))
    assert require_memory(1e6, None, "maximize", "", most=1e8) is None


def test_where_the_system_does_not_tell_all_is_tried(monkeypatch):
    monkeypatch.setattr(_memory, "available_memory", lambda: None)
    assert require_memory(1e15, None, "maximize", "") is None


def test_sizes_as_people_write_them():
    assert [as_text(s) for s in (999, 1.5e3, 2e6, 3.21e9, 4e12)] == [
        "999 bytes",
        "1.5 kB",
        "2 MB",
        "3.21 GB",
        "4 TB",
    ]
