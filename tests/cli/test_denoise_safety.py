"""What commands on folders must not destroy, whatever happens to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tifffile
from cli.masks import CLEAN, NOISY, listed, run, write_masks
from PIL import Image

import logsuper as ls
from logsuper.cli import _learning
from logsuper.io import read_image, write_image


def test_nothing_is_replaced_without_force(tmp_path, noisy, model):
    out = tmp_path / "out"
    out.mkdir()
    (out / "m3.png").write_text("mine")
    for line in (("apply", "--model", model[0]), ("denoise",)):
        done = run(*line, noisy, "--out", out)
        assert done.exit_code == 2 and "is there already" in done.stderr
        assert done.stderr.count("\n") == 1 and listed(out) == ["m3.png"]
    assert (out / "m3.png").read_text() == "mine"
    assert run("apply", "--model", model[0], noisy, "--out", out, "--force").exit_code == 0
    assert len(listed(out)) == 8 and read_image(out / "m3.png").shape == (24, 24)


def test_a_second_run_skips_what_is_finished(tmp_path, noisy, model, monkeypatch):
    out = tmp_path / "out"
    line = ("apply", "--model", model[0], noisy, "--out", out, "--json")
    first = json.loads(run(*line).stdout)
    (out / "m2.png").unlink()
    times = {name: (out / name).stat().st_mtime_ns for name in listed(out)}
    second = json.loads(run(*line).stdout)
    before = [file["finished_before"] for file in second["files"]]
    assert before == [k != 2 for k in range(8)]
    assert first["all"] == second["all"]
    assert all((out / name).stat().st_mtime_ns == then for name, then in times.items())
    # another input, other settings, a result that was edited: none of them is taken for finished
    write_image(noisy / "m1.png", (255 * NOISY[7]).astype(np.uint8), force=True)
    done = run(*line)
    assert done.exit_code == 2 and "m1.png is there already" in done.stderr
    write_image(noisy / "m1.png", (255 * NOISY[1]).astype(np.uint8), force=True)
    assert run(*line).exit_code == 0
    assert run(*line, "--threshold", "0.4").exit_code == 2
    write_image(out / "m4.png", 255 * CLEAN[4], force=True)
    done = run(*line)
    assert done.exit_code == 2 and "m4.png is there already" in done.stderr
    assert np.array_equal(read_image(out / "m4.png"), 255 * CLEAN[4])


def test_a_second_run_takes_the_learned_model(tmp_path, noisy, monkeypatch):
    line = (
        "denoise",
        noisy,
        "--out",
        tmp_path / "out",
        "--save-model",
        tmp_path / "m.npz",
        "--json",
    )
    first = run(*line)
    assert first.exit_code == 0, first.output
    monkeypatch.setattr(_learning, "learn", lambda *rest: pytest.fail("learned again"))
    second = run(*line)
    assert second.exit_code == 0, second.output
    one, two = json.loads(first.stdout), json.loads(second.stdout)
    assert one["all"] == two["all"]
    assert all(file["finished_before"] for file in two["files"])
    wider = run(*line, "--probabilities")  # more results of the same model
    assert wider.exit_code == 0 and len(listed(tmp_path / "out")) == 16


def test_models_are_not_replaced(tmp_path, noisy, model):
    (tmp_path / "m.npz").write_text("mine")
    for line in (("fit", noisy), ("denoise", noisy, "--out", tmp_path / "out")):
        done = run(*line, "--save-model", tmp_path / "m.npz")
        assert done.exit_code == 2 and "is there already" in done.stderr
    assert (tmp_path / "m.npz").read_text() == "mine" and not listed(tmp_path / "out")
    done = run("fit", noisy, "--save-model", tmp_path / "m.npz", "--force")
    assert done.exit_code == 2 and "is no model" in done.stderr
    (tmp_path / "m.npz").unlink()
    assert run("fit", noisy, "--save-model", tmp_path / "m.npz").exit_code == 0
    assert run("fit", noisy, "--save-model", tmp_path / "m.npz", "--force").exit_code == 0
    assert run("info", tmp_path / "m.npz").exit_code == 0


def test_inputs_are_never_replaced(tmp_path, noisy, model):
    before = {name: (noisy / name).read_bytes() for name in listed(noisy)}
    link = tmp_path / "link"
    link.symlink_to(noisy)
    for out in (noisy, noisy / "." / "x" / "..", link):
        done = run("apply", "--model", model[0], noisy, "--out", out, "--force")
        assert done.exit_code == 2, done.output
        assert "never replaced" in done.stderr or "would replace the image" in done.stderr
    done = run(
        "apply", "--model", model[0], noisy / "m0.png", noisy / "m1.png", "--out", noisy, "--force"
    )
    assert done.exit_code == 2 and "would replace the image" in done.stderr
    assert {name: (noisy / name).read_bytes() for name in listed(noisy)} == before


def test_results_below_the_input_folder_are_not_inputs(tmp_path, noisy, model):
    line = ("apply", "--model", model[0], noisy, "--out", noisy / "clean", "--json")
    assert run(*line).exit_code == 0
    assert len(json.loads(run(*line).stdout)["files"]) == 8


def test_folders_of_the_same_names(tmp_path, model):
    for name in ("a", "b"):
        write_masks(tmp_path / "in" / name, NOISY[:2])
    line = ("apply", "--model", model[0], "--out", tmp_path / "out")
    assert run(*line, tmp_path / "in" / "a", tmp_path / "in" / "b" / "m0.png").exit_code == 0
    assert listed(tmp_path / "out") == ["a/m0.png", "a/m1.png", "b/m0.png"]
    Image.fromarray(255 * CLEAN[0]).save(tmp_path / "in" / "a" / "m0.jpg")
    done = run(*line, tmp_path / "in" / "a", "--force")
    assert done.exit_code == 2 and "would be written to one file" in done.stderr


def test_broken_files_are_left_out_and_the_rest_goes_on(tmp_path, noisy, model):
    (noisy / "empty.png").touch()
    (noisy / "text.png").write_text("text")
    data = (noisy / "m1.png").read_bytes()
    (noisy / "m1.png").write_bytes(data[: len(data) // 2])
    (noisy / "film.gif").write_bytes(b"GIF89a")
    write_image(noisy / "big.png", np.full((24, 24, 3), (9, 8, 7), np.uint8), color=True)
    for k, line in enumerate((("apply", "--model", model[0]), ("denoise",))):
        out = tmp_path / f"out{k}"
        done = run(*line, noisy, "--out", out, "--json")
        assert done.exit_code == 1, done.output
        assert listed(out) == [f"m{k}.png" for k in range(8) if k != 1]
        left = {os.path.basename(f["input"]) for f in json.loads(done.stdout)["left_out"]}
        assert left == {"empty.png", "text.png", "m1.png", "film.gif", "big.png"}
        assert done.stderr.count("\n") == 5 and done.stderr.count("Left out: ") == 5


@pytest.mark.skipif(sys.platform != "linux", reason="names that other systems do not allow")
def test_odd_names_are_kept_and_printed_without_control_characters(tmp_path, model):
    names = ["a\nb.png", "\udcff.png", "[red]\x1b[2J.png", "z.jpg.png"]
    for name, mask in zip(names, NOISY, strict=False):
        write_image(tmp_path / "in" / name, 255 * mask)
    (tmp_path / "in" / "bad\x1b\n.png").touch()
    line = ("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out", "--compare")
    done = run(*line)
    assert done.exit_code == 1, done.output
    assert "\x1b" not in done.output and done.stderr.count("\n") == 1
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {*names, "compare", ".logsuper"}
    assert json.loads(run(*line, "--json").stdout)["files"][0]["finished_before"]


def test_nothing_that_can_be_read(tmp_path, model):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.png").touch()
    for line in (("denoise",), ("apply", "--model", model[0])):
        done = run(*line, tmp_path / "in", "--out", tmp_path / "out")
        assert done.exit_code == 2 and done.stderr.splitlines()[-1].startswith("Error: none of")
        assert not (tmp_path / "out").exists()


def test_an_image_of_another_size_than_the_model(tmp_path):
    masks = ls.Flips(0.1).sample(ls.make_silhouettes(20, (16, 16), seed=1), seed=1)
    write_masks(tmp_path / "in", masks)
    done = run("fit", tmp_path / "in", "--save-model", tmp_path / "m.npz", "--json")
    assert json.loads(done.stdout)["model"]["modular"] == "per pixel"
    write_masks(tmp_path / "other", [*masks[:2], np.eye(9)])
    done = run(
        "apply", "--model", tmp_path / "m.npz", tmp_path / "other", "--out", tmp_path / "out"
    )
    assert done.exit_code == 1 and listed(tmp_path / "out") == ["m0.png", "m1.png"]
    assert "m2.png: it has shape (9, 9)" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
def test_ctrl_c_leaves_whole_files_and_a_second_run_continues(tmp_path, model):
    folder, out = tmp_path / "in", tmp_path / "out"
    write_masks(folder, np.tile(NOISY, (10, 1, 1)))
    code = (
        "import sys, time; from logsuper.cli import main, _cleaning\n"
        "_cleaning._BATCH = 1\n"
        "finish = _cleaning.Cleaner._finish\n"
        "def slowly(*rest):\n    time.sleep(0.02)\n    return finish(*rest)\n"
        "_cleaning.Cleaner._finish = slowly\n"
        "main(sys.argv[1:])\n"
    )
    line = ["apply", "--model", str(model[0]), str(folder), "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *line], stderr=subprocess.PIPE, text=True
    )
    while len(listed(out)) < 5 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    lines = said.splitlines()
    assert lines[-1] == "Interrupted." and lines[-2].endswith("the same command continues.")
    there = listed(out)
    assert list(out.glob(".*")) == [out / ".logsuper"]
    assert 5 <= len(there) < 80 and all(read_image(out / name).shape == (24, 24) for name in there)
    done = run(*line, "--json")
    assert done.exit_code == 0 and len(listed(out)) == 80
    assert sum(f["finished_before"] for f in json.loads(done.stdout)["files"]) == len(there)


def test_a_full_disk_is_one_line(tmp_path, noisy, model, monkeypatch):
    def fail(*rest, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("logsuper.io.encode_image", fail)
    done = run("apply", "--model", model[0], noisy, "--out", tmp_path / "out")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr and not listed(tmp_path / "out")


def test_a_record_that_was_cut_short_is_mended(tmp_path, noisy, model):
    line = ("apply", "--model", model[0], noisy, "--out", tmp_path / "out", "--json")
    assert run(*line).exit_code == 0
    record = tmp_path / "out" / ".logsuper" / "files.jsonl"
    whole = record.read_bytes()
    record.write_bytes(whole[:-20])
    (tmp_path / "out" / "m7.png").unlink()
    assert run(*line).exit_code == 0
    assert record.read_bytes() == whole


def test_tiff_without_a_codec_is_said(tmp_path, model):
    pytest.importorskip("tifffile")
    try:
        tifffile.imwrite(tmp_path / "x.tif", 255 * NOISY[0], compression="webp")
    except Exception:  # no imagecodecs: that is the case to test, with a tag of our own
        tifffile.imwrite(tmp_path / "x.tif", 255 * NOISY[0], compression="zlib")
        with tifffile.TiffFile(tmp_path / "x.tif", mode="r+b") as file:
            file.pages[0].tags["Compression"].overwrite(50001)
        done = run("apply", "--model", model[0], tmp_path / "x.tif", "--out", tmp_path / "out")
        assert done.exit_code == 2 and "the package imagecodecs" in done.stderr


def test_inputs_are_never_replaced_even_by_force(tmp_path, noisy):
    clean = write_masks(tmp_path / "clean", CLEAN)
    before = {path: path.read_bytes() for folder in (noisy, clean) for path in folder.iterdir()}
    line = "denoise", noisy, "--clean", clean, "--force"
    done = run(*line, "--out", tmp_path / "out", "--save-model", noisy / "m1.png")
    assert done.exit_code == 2 and "is no model; give another name" in done.stderr
    done = run(*line, "--out", tmp_path / "out", "--save-model", clean / "m1.png")
    assert done.exit_code == 2 and "is no model; give another name" in done.stderr
    done = run(*line, "--out", clean)
    assert done.exit_code == 2 and "would replace the image" in done.stderr
    assert all(path.read_bytes() == held for path, held in before.items())
    assert run(*line, "--out", tmp_path / "out", "--save-model", tmp_path / "m.npz").exit_code == 0
    again = run(*line, "--out", tmp_path / "out", "--save-model", tmp_path / "m.npz")
    assert again.exit_code == 0  # a model is replaced


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_among_the_images_is_left_out(tmp_path, noisy, model):
    os.mkfifo(noisy / "pipe.png")
    done = run("apply", "--model", model[0], noisy, "--out", tmp_path / "out")
    assert done.exit_code == 1 and "pipe.png: is not a file" in done.stderr
    assert len(listed(tmp_path / "out")) == 8


def test_masks_of_one_colour_are_told(tmp_path):
    rng = np.random.default_rng(0)
    noisy = write_masks(tmp_path / "noisy", (rng.random((3, 40, 40)) < 0.2).astype(np.uint8))
    done = run("denoise", noisy, "--out", tmp_path / "out", "--noise", "0.2")
    assert done.exit_code == 0, done.output
    assert not any(read_image(tmp_path / "out" / f"m{k}.png").any() for k in range(3))
    assert "Every mask is of one colour now" in done.stdout


@pytest.mark.parametrize("noise", ["asymmetric", "0.02,0.25"])
def test_zeros_and_ones_with_rates_of_their_own(tmp_path, noise):
    clean = ls.make_silhouettes(12, (32, 32), seed=0)
    seen = ls.AsymmetricFlips(0.02, 0.25).sample(clean, seed=1).astype(np.uint8)
    line = "denoise", write_masks(tmp_path / "noisy", seen), "--out", tmp_path / "out"
    done = run(*line, "--noise", noise, "--json")
    assert done.exit_code == 0, done.output
    model = json.loads(done.stdout)["model"]
    assert model["noise_kind"] == "asymmetric"
    assert np.allclose(model["noise"], [0.02, 0.25], atol=0.05)
    found = [read_image(tmp_path / "out" / f"m{k}.png") > 0 for k in range(12)]
    assert np.mean(found != clean) < 0.6 * np.mean(seen != clean)
    for wrong in ("0.1,0.2,0.3", "0.1,0.7", "nan", "asym"):
        done = run(*line, "--noise", wrong)
        assert done.exit_code == 2 and "neither auto nor asymmetric" in done.stderr
