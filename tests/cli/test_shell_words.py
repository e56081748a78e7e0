"""Warnings of the library in the shell: one plain line each, with options of the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from cli.masks import CLEAN, run
from scipy.ndimage import gaussian_filter

from logsuper.cli._shell_words import collected_warnings, in_shell_words, plain_warnings
from logsuper.io import write_image

# Arguments, functions and variables of Python.
PYTHON = re.compile(r"\w=|\w\(|\[|noisy|observed\b|'\w+'|\bchannel\b|learner|penalty|make_examples")

RNG = np.random.default_rng(0)


def grey(images):
    return [np.clip(image, 0, 255).astype(np.uint8) for image in images]


CLUMPS = gaussian_filter(RNG.standard_normal((8, 96, 96)), (0, 0.6, 0.6)) > 0.7
LARGE = np.kron(CLEAN, np.ones((1, 4, 4)))
CASES = {
    "uneven light": grey(
        90 + 60 * LARGE + np.linspace(-70, 70, 96) + 10 * RNG.standard_normal(LARGE.shape)
    ),
    "noise alone": grey(120 + 30 * RNG.standard_normal((4, 80, 80))),
    "stripes": grey(
        90 + 60 * LARGE + 60 * gaussian_filter(RNG.standard_normal(LARGE.shape), (0, 2, 2))
    ),
    "clumps": list(255 * ((LARGE > 0) ^ CLUMPS).astype(np.uint8)),
    "a wrong rate": list(255 * (LARGE > 0).astype(np.uint8)),
    "half ones": list(255 * RNG.integers(0, 2, (4, 60, 60)).astype(np.uint8)),
}


@pytest.mark.parametrize("case", CASES)
def test_warnings_name_options_and_files(tmp_path, case):
    for k, image in enumerate(CASES[case]):
        write_image(tmp_path / "in" / f"i{k}.png", image)
    noise = ["--noise", 0.4] if case == "a wrong rate" else []
    line = ("fit", tmp_path / "in", "--save-model", tmp_path / "m.npz", "--no-trees", *noise)
    done = run(*line, "--json")
    said = [one for one in done.stderr.splitlines() if one.startswith(("Warning: ", "Error: "))]
    assert said and said == done.stderr.splitlines(), done.output
    for text in said:
        assert not PYTHON.search(text.replace(str(tmp_path), "")), text
        assert "--" in text
    if done.exit_code == 0:
        assert json.loads(done.stdout)["warnings"] == [one[len("Warning: ") :] for one in said]


def test_numbers_of_images_become_names():
    text = "it is dark around noisy[1][3, 4], and bright around noisy[7]"
    assert in_shell_words(text, ["a.png", "b.png"]) == (
        "it is dark around b.png, and bright around image 8"
    )


def test_warnings_of_other_commands_are_one_line_each(capsys):
    with plain_warnings(), warnings.catch_warnings():
        warnings.simplefilter("always")
        for _ in range(2):
            warnings.warn("the\nfield is odd", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "Warning: the field is odd\n"
    code = (
        "import warnings; from logsuper.cli import main; from logsuper.cli import _info as i\n"
        "i.loaded = lambda path: warnings.warn('odd: noise = 3') or exit(0)\n"
        "main(['info', 'x'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "Warning: odd: --noise is 3\n"


def test_collected_warnings_are_told_once():
    with collected_warnings() as texts:
        for _ in range(3):
            warnings.warn("observed is odd", UserWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert texts == ["the images are odd"]
