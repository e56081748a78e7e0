import re
import shutil
import subprocess

import pytest

import logsuper
from logsuper.report import commit, duration, versions


def test_versions_are_all_that_a_result_depends_on():
    assert versions().startswith(f"logsuper {logsuper.__version__}")
    assert re.search(r"Python 3\.\d+\.\d+\S*, numpy \d", versions())


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "40 ms"),
        (0.14, "0.1 s"),
        (9.9, "9.9 s"),
        (59.4, "59 s"),
        (59.7, "1 min 0 s"),
        (3599, "59 min 59 s"),
    ],
)
def test_duration(seconds, words):
    assert duration(seconds) == words


# ------------------------------------------------------------------------------ state of the source


def git(folder, *arguments):
    """Run git, whatever the settings of the user are; return what it says."""
    names = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main"]
    command = ["git", "-C", str(folder), *names, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path):
    """A repository with a package and no commit yet; returns both."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    package = tmp_path / "clone" / "src" / "logsuper"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    git(tmp_path / "clone", "init")
    return tmp_path / "clone", package


def make_commit(root):
    git(root, "add", "-A")
    git(root, "commit", "-m", "x", "--allow-empty")
    return git(root, "rev-parse", "HEAD")


def test_commit_of_a_branch(clone):
    root, package = clone
    assert commit(package) is None
    digits = make_commit(root)
    assert re.fullmatch("[0-9a-f]{40}", digits)
    assert commit(package) == digits
    installed = root / ".venv" / "lib" / "logsuper"
    installed.mkdir(parents=True)
    assert commit(installed) == digits


def test_commit_of_a_packed_branch_and_of_none(clone):
    root, package = clone
    first, second = make_commit(root), make_commit(root)
    git(root, "pack-refs", "--all")
    assert commit(package) == second != first
    git(root, "checkout", "--detach", first)
    assert commit(package) == first
    (root / ".git" / "HEAD").unlink()
    assert commit(package) is None


def test_commit_of_a_work_tree(clone, tmp_path):
    root, _ = clone
    make_commit(root)
    git(root, "worktree", "add", "-b", "other", str(tmp_path / "tree"))
    digits = make_commit(tmp_path / "tree")
    assert (
        commit(tmp_path / "tree" / "src" / "logsuper") == digits != git(root, "rev-parse", "HEAD")
    )


def test_a_repository_of_something_else_does_not_count(tmp_path, clone):
    root, package = clone
    make_commit(root)
    shutil.rmtree(package)
    package = root / ".venv" / "lib" / "logsuper"
    package.mkdir(parents=True)
    assert commit(package) is None


def test_without_git_there_is_no_commit(clone, monkeypatch):
    root, package = clone
    make_commit(root)
    monkeypatch.setenv("PATH", "")
    assert commit(package) is None
