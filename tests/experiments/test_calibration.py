"""Calibration in miniature."""

import io

import numpy as np
import pytest
from PIL import Image

from logsuper.experiments import Job, calibration, load_setting
from logsuper.experiments._quality import calibration_error, count_bins, judge
from logsuper.solvers._native import kernels

SETTING = load_setting(train=24, test=5, shape=(20, 20))
M = {method: m for m, method in enumerate(calibration.METHODS)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("partial")


@pytest.fixture(scope="module")
def result(folder, few_trees):
    if kernels() is None:
        pytest.skip("takes minutes without compiled kernels")
    return calibration.compute(SETTING, Job((0,), True, folder))


def same(one, two):
    return all(
        np.array_equal(getattr(one, name), getattr(two, name))
        for name in ("count", "predicted", "observed", "quality")
    )


def test_every_pixel_is_in_a_bin(result):
    shape = (2, 1, len(M), calibration.BINS)
    assert result.count.shape == result.predicted.shape == result.observed.shape == shape
    assert (result.count.sum(axis=-1) == 5 * 20 * 20).all()
    assert (result.observed.sum(axis=-1) == SETTING.clean[1].sum()).all()
    assert (result.observed <= result.count).all()
    left, right = np.arange(calibration.BINS) / 20, np.arange(1, calibration.BINS + 1) / 20
    assert (result.predicted >= left * result.count - 1e-9).all()
    assert (result.predicted <= right * result.count + 1e-9).all()


def test_bins():
    p = np.array([[0.0, 0.04, 0.05, 1.0, 0.96]])
    count, predicted, observed = count_bins(p, np.array([[0, 1, 0, 1, 1]])).reshape(3, 20)
    assert count[0] == 2 and count[1] == 1 and count[19] == 2 and count.sum() == 5
    assert predicted[0] == pytest.approx(0.04) and predicted[19] == pytest.approx(1.96)
    assert observed[0] == 1 and observed[19] == 2


def test_error_of_calibrated_and_of_wrong():
    count = np.zeros((1, 1, 1, 20))
    count[..., 2], count[..., 17] = 300.0, 100.0
    predicted = 0.125 * count
    assert calibration_error(count, predicted, predicted).item() == 0.0
    observed = predicted.copy()
    observed[..., 17] += 20.0  # of 400 pixels
    assert calibration_error(count, predicted, observed).item() == pytest.approx(5.0)
    truth = np.repeat([0, 1, 1, 1], 25)
    loss, error = judge(np.full(100, 0.6), truth)
    assert loss == pytest.approx(-0.75 * np.log(0.6) - 0.25 * np.log(0.4))
    assert error == pytest.approx(15.0)
    assert judge(1.0 - truth, truth)[0] == pytest.approx(-np.log(1e-4))  # finite


def test_lfield_is_the_worst(result):
    error = result.error.mean(axis=(0, 1))
    assert error[M["lfield"]] > max(error[M[name]] for name in ("exact", "logistic", "bethe"))


def test_section(folder, result):
    section = calibration.run(SETTING, Job((0,), True, folder))
    grid, loss, learned = section.tables
    assert [row[0] for row in loss.rows] == [row[0] for row in learned.rows]
    assert loss.rows[2][1] == f"{result.quality[2, 0, 0, 0]:.4f}"
    assert learned.rows[1][2] == f"{result.quality[1, 1, 1, 0]:.2f}"
    assert section.name == "calibration" and section.seeds == (0,)
    assert grid.head == ("marginals", "10 %", "20 %")
    assert [row[0] for row in grid.rows] == ["exact", "logistic (recommended)", "Bethe", "L-field"]
    m = M["lfield"]
    assert grid.rows[m][1] == f"{result.error[0, 0, m]:.2f}"
    assert len(grid.data) == 1 + 2 * 4 * 20
    assert all(len(row) == len(grid.data[0]) for row in grid.data)
    (picture,) = section.pictures
    with Image.open(io.BytesIO(picture.png)) as image:
        assert image.format == "PNG" and image.width > image.height
    assert "10 % and 20 %" in picture.caption
    assert picture.png == calibration.draw(result)


def test_done_is_not_done_again(folder, result, monkeypatch):
    def refuse(**arguments):
        raise AssertionError(arguments)

    monkeypatch.setattr(calibration, "_sums", refuse)
    assert same(calibration.compute(SETTING, Job((0,), True, folder)), result)


def test_interrupted_gives_the_same(tmp_path, result):
    def stop(done, _):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibration.compute(SETTING, Job((0,), True, tmp_path, stop))
    assert len(list(tmp_path.iterdir())) == 1
    assert same(calibration.compute(SETTING, Job((0,), True, tmp_path)), result)
    assert (result.quality > 0).all()
