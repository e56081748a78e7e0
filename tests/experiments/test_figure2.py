import csv
import io

import numpy as np
import pytest
from PIL import Image

from logsuper.estimators import MaskDenoiser
from logsuper.experiments import Job, Setting, figure2, load_setting


@pytest.fixture(scope="module")
def setting():
    return load_setting(train=12, test=6, shape=(20, 20))


@pytest.fixture(scope="module")
def first(setting, tmp_path_factory):
    """The section of a quick run, and the folder with its parts."""
    folder = tmp_path_factory.mktemp("partial")
    told = []
    section = figure2.run(setting, Job((3,), True, folder, lambda *done: told.append(done)))
    assert told[0] == (0, 3) and told[-1] == (3, 3)
    return section, folder


def same(one, two):
    assert one.tables == two.tables
    assert one.pictures == two.pictures
    assert one.text == two.text


def test_section_has_every_picture_and_the_errors(first):
    section, _ = first
    assert section.name == "figure2" and section.seeds == (3,)
    names = [picture.name for picture in section.pictures]
    kinds = ("denoised", "uncertainty", "missing", "parameters")
    assert names == [f"figure2_10_{kind}" for kind in kinds]
    for picture in section.pictures:
        assert picture.shipped
        assert picture.caption.startswith("10 % noise: ")
        with Image.open(io.BytesIO(picture.png)) as image:
            assert image.format == "PNG" and min(image.size) > 200
    missing = section.pictures[2].caption
    assert "exact" in missing and "approximate, by Swendsen and Wang" in missing
    grid, weights = section.tables
    assert len(weights.rows) == 3 and all(
        float(cell) >= 0 for row in weights.rows for cell in row[2:]
    )
    assert [row[1] for row in grid.rows] == list(figure2.GAPS.values())
    assert all(len(row) == len(grid.head) for row in (*grid.rows, *grid.data))
    observed, mode, mean, _ = map(float, grid.data[1][2:6])
    assert 8 < observed < 12 and mode < 0.6 * observed and mean < 0.6 * observed
    assert grid.rows[0][6:] == ("", "")
    for row in grid.data[2:]:
        assert float(row[6]) > float(row[4])  # what is missing is harder
    text = io.StringIO()
    csv.writer(text).writerows(grid.data)
    assert text.getvalue().count("\n") == 4


def test_finished_parts_are_not_done_again(setting, first, monkeypatch):
    section, folder = first
    monkeypatch.setattr(figure2, "_work", lambda **arguments: pytest.fail("done again"))
    same(section, figure2.run(setting, Job((3,), True, folder)))


def test_an_interrupted_run_ends_with_the_same_numbers(setting, first, monkeypatch, tmp_path):
    section, _ = first
    work, done = figure2._work, []

    def stop(**arguments):
        if done:
            raise KeyboardInterrupt
        done.append(arguments["kind"])
        return work(**arguments)

    monkeypatch.setattr(figure2, "_work", stop)
    with pytest.raises(KeyboardInterrupt):
        figure2.run(setting, Job((3,), True, tmp_path))
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(figure2, "_work", work)
    same(section, figure2.run(setting, Job((3,), True, tmp_path)))


def test_other_images_are_never_written_as_files(setting, first):
    _, folder = first
    private = Setting(setting.masks, setting.train, setting.test, "somewhere", shipped=False)
    found = figure2.run(private, Job((3,), True, folder))
    assert not any(picture.shipped for picture in found.pictures)


def test_a_third_is_missing():
    shape = (5, 30, 30)
    assert not figure2._missing("whole", shape, [0]).any()
    assert abs(figure2._missing("scattered", shape, [0]).mean() - 1 / 3) < 0.03
    block = figure2._missing("block", shape, [0])
    assert block.mean() == pytest.approx(1 / 3)
    assert block[:, :, 10:20].all()


def test_the_chain_samples_what_exact_samples_do(setting, monkeypatch):
    clean, _ = setting.clean
    noisy, observed = setting.noisy(0.2, 0)
    denoiser = MaskDenoiser(modular="pixel", context=2).fit(noisy, clean)
    monkeypatch.setattr(figure2, "_SAMPLES", 400)
    chain = figure2._sample_clusters(denoiser, observed[:2], 1).mean(axis=1)
    exact = denoiser.sample_posterior(observed[:2], 400, random_state=2).mean(axis=1)
    # two means of 400 coins each
    error = np.sqrt(2 * np.clip(exact * (1 - exact), 0.01, None) / 400)
    assert np.abs(chain - exact).max() < 5 * error.max()
    assert np.mean(((chain - exact) / error) ** 2) < 1.3
