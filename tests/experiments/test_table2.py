"""Table 2 in miniature: its structure, its numbers, and that nothing is done twice."""

import dataclasses
import re

import numpy as np
import pytest

from logsuper.experiments import Job, load_setting, table2
from logsuper.experiments._setting import NOISES
from logsuper.experiments.table2 import make_section
from logsuper.solvers._native import kernels

SETTING = load_setting(train=20, test=5, shape=(18, 18))
# the same silhouettes, but not known to be such: for what is said of the paper's images
OTHERS = dataclasses.replace(SETTING, shipped=False)


@pytest.fixture(scope="module", autouse=True)
def rough(few_trees):
    """So small and few images make the paper's objective converge slowly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table2, "_QUICK_TOL", 1e-2)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("partial")


@pytest.fixture(scope="module")
def result(folder):
    if kernels() is None:
        pytest.skip("takes minutes without compiled kernels")
    return table2.compute(SETTING, Job((0,), True, folder))


@pytest.fixture(scope="module")
def section(folder, result):
    return table2.run(SETTING, Job((0,), True, folder))


def made_up(noises=NOISES, seeds=(0, 1), **changes):
    """Return results that nobody has computed."""
    rng = np.random.default_rng(0)
    shape = (len(table2.METHODS), len(noises), len(seeds))
    arrays = {
        "error": rng.uniform(0.1, 5.0, (*shape, 2)),
        "length": rng.uniform(0.5, 1.5, (*shape, 2)),
        "rate": np.broadcast_to(np.array(noises)[:, None], shape),
        "converged": np.ones(shape),
        "loss": np.ones(shape),
        "calibration": np.ones(shape),
    }
    return table2.Result(noises, seeds, 1e-3, **{**arrays, **changes})


def words(section):
    """Return all words of a section."""
    return " ".join(str(tuple(part)) if isinstance(part, tuple) else part for part in section.text)


def told(result, setting=SETTING):
    text = words(make_section(result, setting))
    assert not re.search(r"[,;:%][a-z]|[.] ?[.]|  ", text)  # pieces fit together
    return text


def test_paper_as_printed():
    """Table 2 of Shpakova and Bach, 2016."""
    assert NOISES == (0.01, 0.05, 0.1, 0.2)
    assert table2.PAPER[True, "MAP"] == (0.5, 0.9, 1.9, 5.3)
    assert table2.PAPER[True, "mean"] == (0.5, 1.0, 2.1, 6.0)
    assert table2.PAPER[False, "MAP"] == (1.0, 3.5, 6.8, 20.0)
    assert table2.PAPER[False, "mean"] == (1.0, 3.6, 7.0, 20.0)


def test_the_papers_objective():
    for method in table2.METHODS:
        denoiser = method.denoiser(0.1, 1e-3, 7)
        assert denoiser.random_state == 7 and denoiser.n_jobs == 1
        if method.latent:
            assert denoiser.learner == "latent" and denoiser.penalty == 0.01
            assert denoiser.noise == (0.1 if method.known else 0.3)
            assert denoiser.options["noise"] == ("fixed" if method.known else "learned")
        else:
            assert denoiser.learner == method.learner and denoiser.penalty is None
            assert denoiser.noise == (0.1 if method.known else "flips")


def test_numbers(result):
    assert result.seeds == (0,) and result.noises == (0.1, 0.2)
    assert result.error.shape == result.length.shape == (12, 2, 1, 2)
    assert (result.error > 0).all()
    assert (result.error < 100 * np.array(result.noises)[:, None, None]).all()  # less than before
    assert (result.length > 0).all()
    for i, method in enumerate(table2.METHODS):
        if method.known:
            assert np.array_equal(result.rate[i, :, 0], result.noises)
    # those that are told nothing have the same estimate
    first, *others = result.of(known=False, latent=False)
    assert len(others) == 4
    for other in others:
        assert np.array_equal(result.rate[first], result.rate[other])


def test_a_number_by_hand(result):
    method = next(m for m in table2.METHODS if m.kind == "moments" and not m.known)
    i = table2.METHODS.index(method)
    noisy, test = SETTING.noisy(0.2, 0)
    denoiser = method.denoiser(0.2, 1e-3, 0).fit(noisy)
    found = denoiser.set_params(decode="map").predict(test)
    assert denoiser.decode_factor_ == 1.0
    assert result.error[i, 1, 0, 0] == pytest.approx(100 * np.mean(found != SETTING.clean[1]))


def test_the_limits_are_compared_with_mean_decoding():
    error = np.full_like(made_up().error, 9.0)
    (i,) = (i for i, m in enumerate(table2.METHODS) if m.kind == "trees" and not m.known)
    error[i, ..., 1] = np.array([[0.1, 0.2], [0.7, 0.8], [1.4, 1.5], [3.3, 3.4]])
    row, default = make_section(made_up(error=error), OTHERS).tables[2].rows
    assert default[1] == "9.000 ± 0.000, at most 0.19: NOT met"
    assert row[1] == "0.150 ± 0.050, at most 0.19: met"
    assert row[2] == "0.750 ± 0.050, at most 0.72: NOT met"


def test_boundary():
    mask = np.zeros((2, 4, 4), dtype=np.uint8)
    assert table2.boundary(mask) == 0
    mask[0, 1:3, 1:3] = 1
    assert table2.boundary(mask) == 8
    mask[1, 0, 0] = 1
    assert table2.boundary(mask) == 10


def test_sections(section):
    assert section.name == "table2" and section.seeds == (0,)
    known, unknown, rate, boundary = section.tables
    for grid in section.tables:
        assert all(len(row) == len(grid.head) for row in grid.rows)
        assert all(len(row) == len(grid.data[0]) for row in grid.data)
    assert len(known.rows) == len(unknown.rows) == 12
    assert len(known.data) == 1 + 6 * 2 * 2
    assert len(rate.rows) == 2 and len(boundary.rows) == 24
    assert all(column >= 2 for _, column in known.best | unknown.best)
    assert "nan" not in words(section)


def test_mean_deviation_and_difference():
    error = made_up().error.copy()
    error[0, 2, :, 0] = 1.5, 2.5  # the paper's objective, noise known, 10 %, MAP
    error[1, 3, :, 1] = 0.01
    grid, other = make_section(made_up(error=error), OTHERS).tables[:2]
    assert grid.rows[0] == ("paper", "MAP", "0.5", "0.9", "1.9", "5.3")
    assert other.rows[1] == ("paper", "mean", "1.0", "3.6", "7.0", "20.0")
    assert grid.rows[2][:2] == ("paper's objective", "MAP")
    assert grid.rows[2][4] == "2.00 ± 0.50 (+0.10)"
    assert (5, 5) in grid.best  # moments, mean, 20 %
    assert len(grid.best) == 4
    assert grid.quoted == {(i, j) for i in range(2) for j in range(6)}


@pytest.mark.parametrize(
    ("lengths", "answer"),
    [((0.8, 0.9), "smooths more"), ((1.0, 0.9), "MAP smooths less"), ((0.9, 0.9), "neither")],
)
def test_answer_on_oversmoothing(lengths, answer):
    length = np.broadcast_to(np.array(lengths), made_up().length.shape)
    finding = make_section(made_up(length=length), SETTING).text[-1]
    assert "oversmooths" in finding.paper and answer in finding.found
    assert "short a boundary in 8 of 8 cells" in finding.found


def test_tells_where_the_papers_objective_keeps_the_noise():
    error = np.full_like(made_up().error, 0.5)
    (latent,) = made_up().of(known=False, latent=True)
    error[latent, 3] = 19.0
    assert "removes less" not in told(made_up(error=error))
    rate = 0.1 * made_up().rate
    assert "at 20 %, the paper's objective removes less" in told(made_up(error=error, rate=rate))
    error[latent, 3] = 5.0
    assert "removes less" not in told(made_up(error=error, rate=rate))


def test_nothing_is_compared_with_the_paper_s_numbers_on_other_images():
    grid = make_section(made_up(), SETTING).tables[0]
    assert grid.rows[0][0] == "paper's objective" and "(" not in "".join(grid.rows[0])
    assert not grid.quoted
    text = told(made_up())
    assert "cannot be compared" in text
    assert "cells (diff" not in text and "of the paper 0" not in text
    text = told(made_up(), OTHERS)
    assert "cells (differences from" in text and "that of the paper 0.5/0.9/1.9/5.3 %" in text


def test_tells_how_many_converged():
    converged = made_up().converged.copy()
    converged[0, 0, 0] = 0
    assert "15 of 16 fits" in told(made_up(converged=converged))


def test_done_is_not_done_again(folder, result, monkeypatch):
    def refuse(**arguments):
        raise AssertionError(arguments)

    monkeypatch.setattr(table2, "_fit", refuse)
    seen = []
    again = table2.compute(SETTING, Job((0,), True, folder, lambda *done: seen.append(done)))
    assert seen == [(12, 12)]
    for name in ("error", "length", "rate", "converged", "loss", "calibration"):
        assert np.array_equal(getattr(again, name), getattr(result, name))


def test_interrupted_gives_the_same(tmp_path, result):
    def stop(done, _):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table2.compute(SETTING, Job((0,), True, tmp_path, stop))
    assert len(list(tmp_path.iterdir())) == 5
    again = table2.compute(SETTING, Job((0,), True, tmp_path))
    assert np.array_equal(again.error, result.error)
    assert np.array_equal(again.length, result.length)
