"""The benchmark of segmentation from scribbles, on drawn scenes in the layout of its data."""

import numpy as np
import pytest
from PIL import Image

import logsuper as ls
from benchmarks import interaction, segment
from benchmarks.scribble_peers import Peer, run_cached


def write(folder, scenes):
    for part in ("images", "ground_truth", "scribbles_1", "scribbles_2"):
        (folder / part).mkdir(parents=True)
    for i, (image, mask, marks) in enumerate(zip(*scenes, strict=True)):
        truth = np.where(mask == 1, 255, 0).astype(np.uint8)
        truth[0] = 128
        Image.fromarray(image).save(folder / "images" / f"{i}.png")
        Image.fromarray(truth).save(folder / "ground_truth" / f"{i}.png")
        for k in segment.SETS:
            Image.fromarray(marks).save(folder / f"scribbles_{k}" / f"{i}.png")


def nothing(image, scribbles, level):
    return np.where(scribbles == 1, 1.0, level)


def test_the_page(tmp_path, monkeypatch, capsys):
    write(tmp_path / "grabcut", ls.make_scenes(6, (32, 40), seed=0))
    peer = Peer("nothing", nothing, [{"level": 0.9}, {"level": 0.2}], True)
    monkeypatch.setattr(segment, "available", lambda: ([peer], ["absent"]))
    monkeypatch.setattr(segment, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(segment, "measure", lambda: segment.Table("Time", ["a"], [["b"]]))
    page = tmp_path / "page.md"
    code = segment.main(["--data", str(tmp_path), "--markdown", str(page)])
    text = page.read_text()
    assert "left out: absent" in text and "`python -m benchmarks.segment --data DIR" in text
    assert text.count("| logsuper |") == 4 and text.count("| nothing |") == 6
    said = capsys.readouterr().out
    assert "{'level': 0.2}" in said and "{'level': 0.9}" not in said  # objects are small
    assert code in (0, 1) and len(list((tmp_path / "kept").iterdir())) == 12


def test_scores():
    truth = np.array([[1.0, 0.0, np.nan, 1.0]])
    marks = np.array([[0, 0, 0, 1]], dtype=np.uint8)
    photograph = segment.Photograph("a", np.zeros((1, 4, 3)), truth, {1: marks})
    p = np.array([[0.8, 0.4, 0.0, 0.0]])
    found = segment.judge(photograph, 1, p > 0.3, p, 2.0)
    loss = -(np.log(0.8) + np.log(0.6)) / 2
    assert found.error == 50.0 and found.overlap == 0.5 and found.loss == pytest.approx(loss)
    assert found.calibration == pytest.approx(100 * (0.2 + 0.4) / 2) and found.seconds == 2.0


def test_what_is_not_decided_is_said():
    rng = np.random.default_rng(0)
    ours = np.column_stack([rng.normal(2.0, 0.5, 25), np.zeros((25, 4))])
    near, far = ours.copy(), ours.copy()
    near[:, 0] += np.where(np.arange(25) % 2, 1.2, -1.0)
    far[:, 0] += rng.normal(3.0, 1.0, 25)
    scores = {segment.OURS: ours, "near": near, "far": far}
    text = segment.undecided({1: scores, 2: {k: scores[k] for k in (segment.OURS, "far")}})
    assert "between ours and near (scribbles 1):" in text and "far" not in text
    assert "All differences" in segment.undecided({2: {segment.OURS: ours, "far": far}})


def test_strokes_on_photographs_are_timed(tmp_path, monkeypatch):
    write(tmp_path / "grabcut", ls.make_scenes(2, (32, 40), seed=0))
    monkeypatch.setattr(interaction, "SIZE", (80, 60))
    page = tmp_path / "page.md"
    assert interaction.main(["--data", str(tmp_path), "--markdown", str(page)]) in (0, 1)
    text = page.read_text()
    assert "| second stroke | 2 |" in text and "benchmarks.interaction --data DIR" in text


def test_the_next_dab_is_in_the_largest_wrong_region():
    truth = np.zeros((30, 40))
    truth[5:20, 5:25] = 1
    mask, marks = truth == 1, np.zeros((30, 40), dtype=np.uint8)
    assert interaction.next_stroke(mask, truth, marks) is None
    mask[6:19, 8:21] = False
    mask[25:27, 30:32] = True
    added = np.argwhere(interaction.next_stroke(mask, truth, marks) == 1)
    assert len(added) and np.abs(added.mean(axis=0) - [12, 14]).max() < 2


def test_results_of_peers_are_kept(tmp_path):
    calls = []

    def run(image, scribbles, level):
        calls.append(level)
        return nothing(image, scribbles, level)

    peer = Peer("counted", run, [], True)
    marks = np.array([[0, 1]], dtype=np.uint8)
    results = [run_cached(peer, {"level": 0.5}, marks, marks, tmp_path)[0] for _ in range(2)]
    assert calls == [0.5] and (results[0] == results[1]).all()


def test_ahead_needs_mean_median_and_loss():
    ours = np.array([[1.0, 0.9, 0.1, 1.0, 1.0], [2.0, 0.9, 0.1, 1.0, 1.0]])
    worse, better_loss = ours + 1.0, ours + np.array([1.0, 0.0, -0.05, 0.0, 0.0])
    assert segment.ahead({segment.OURS: ours, "a": worse})
    assert not segment.ahead({segment.OURS: ours, "a": worse, "b": better_loss})
    no_loss = better_loss.copy()
    no_loss[:, 2] = np.nan
    assert segment.ahead({segment.OURS: ours, "b": no_loss})
