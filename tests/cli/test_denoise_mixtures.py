"""Folders of files of several kinds: the minority is left out by name, and the rest goes on."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from cli.masks import NOISY, listed, run, write_masks

from logsuper.io import encode_image, read_image, write_image


def _grey(seed):
    return np.random.default_rng(seed).integers(0, 200, (24, 24)).astype(np.uint8)


def test_grey_images_among_masks_are_left_out_and_change_nothing(tmp_path, noisy):
    mixed = shutil.copytree(noisy, tmp_path / "mixed")
    write_image(mixed / "a.png", _grey(0))
    write_image(mixed / "z.png", np.zeros((30, 40), np.uint8) + _grey(1)[:1, :1])
    write_image(mixed / "zz.png", np.arange(256, dtype=np.uint8).repeat(4).reshape(32, 32))
    alone = run("denoise", noisy, "--out", tmp_path / "alone")
    (mixed / "z.png").unlink()
    done = run("denoise", mixed, "--out", tmp_path / "out", "--json")
    assert alone.exit_code == 0 and done.exit_code == 1, done.output
    reasons = {one["input"]: one["reason"] for one in json.loads(done.stdout)["left_out"]}
    assert set(reasons) == {str(mixed / "a.png"), str(mixed / "zz.png")}
    assert all("has grey levels, but most images are masks" in text for text in reasons.values())
    # neither their pixels nor their shapes have a part in what is learned
    assert listed(tmp_path / "out") == listed(tmp_path / "alone") == listed(noisy)
    for name in listed(noisy):
        found = [read_image(tmp_path / place / name) for place in ("out", "alone")]
        assert (found[0] == found[1]).all()


def test_masks_among_grey_images_are_left_out(tmp_path):
    rng = np.random.default_rng(3)
    for k, mask in enumerate(NOISY):
        level = np.clip(80 + 90 * mask + 30 * rng.standard_normal(mask.shape), 0, 255)
        write_image(tmp_path / "in" / f"g{k}.png", level.astype(np.uint8))
    write_image(tmp_path / "in" / "mask.png", NOISY[0] * np.uint8(255))
    done = run("denoise", tmp_path / "in", "--out", tmp_path / "out")
    assert done.exit_code == 1, done.output
    assert "mask.png: is a mask of two levels, but most images are grey" in done.stderr
    assert listed(tmp_path / "out") == [f"g{k}.png" for k in range(8)]


def test_a_rate_is_for_the_masks_even_if_most_images_are_grey(tmp_path):
    write_masks(tmp_path / "in", NOISY[:2])
    for k in range(5):
        write_image(tmp_path / "in" / f"z{k}.png", _grey(k))
    done = run("denoise", tmp_path / "in", "--out", tmp_path / "out", "--noise", 0.1)
    assert done.exit_code == 1, done.output
    assert listed(tmp_path / "out") == ["m0.png", "m1.png"]
    assert "--noise is a rate for masks of two" in done.stderr


@pytest.mark.parametrize("count", [2, 5, 25])
def test_files_left_out_for_one_reason_are_named_in_one_line(tmp_path, noisy, model, count):
    for k in range(count):
        write_image(noisy / f"z{k:02}.png", _grey(k))
    done = run("apply", "--model", model[0], noisy, "--out", tmp_path / "out")
    assert done.exit_code == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("Left out")]
    assert len(lines) == (2 if count == 2 else 1)
    named = [f"z{k:02}.png" in done.stderr for k in range(count)]
    assert all(named[:20]) and not any(named[20:])
    assert ("and 5 more (--json lists all)" in done.stderr) == (count == 25)


def test_one_volume_among_images(tmp_path, noisy):
    write_image(noisy / "v.tif", NOISY[:3] * np.uint8(255))
    done = run("denoise", noisy, "--out", tmp_path / "slices")
    assert done.exit_code == 0 and listed(tmp_path / "slices") == listed(noisy)
    done = run("denoise", noisy, "--out", tmp_path / "whole", "--volume", "whole")
    assert done.exit_code == 1 and listed(tmp_path / "whole") == ["v.tif"]
    assert "8 images, each is an image, not a volume; leave out --volume whole" in done.stderr


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif"])
def test_a_mask_with_a_palette_is_written_with_it(tmp_path, noisy, model, suffix):
    (tmp_path / "in").mkdir()
    palette = np.array([[128, 0, 0], [0, 0, 0]], dtype=np.uint8)
    for k, mask in enumerate(NOISY):
        with open(tmp_path / "in" / f"m{k}{suffix}", "wb") as file:
            encode_image(file, f"x{suffix}", 1 - mask, palette=palette)
    done = run("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    run("apply", "--model", model[0], noisy, "--out", tmp_path / "plain")
    for k in range(8):
        colors = read_image(tmp_path / "out" / f"m{k}{suffix}", color=True)
        plain = read_image(tmp_path / "plain" / f"m{k}.png")
        assert np.array_equal(colors, np.where(plain[..., None] > 0, palette[0], palette[1]))
        numbers = read_image(tmp_path / "out" / f"m{k}{suffix}", palette="indices")
        assert np.array_equal(numbers == 0, plain > 0)
