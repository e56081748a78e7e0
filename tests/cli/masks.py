"""Folders of noisy masks, and commands run on them."""

from __future__ import annotations

import numpy as np
from click.testing import CliRunner

import logsuper as ls
from logsuper.cli import main
from logsuper.io import write_image

CLEAN = ls.make_silhouettes(8, (24, 24), seed=0)
NOISY = ls.Flips(0.1).sample(CLEAN, seed=1).astype(np.uint8)


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def listed(folder):
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def write_masks(folder, masks=NOISY, suffix=".png", levels=(0, 255), dtype=np.uint8):
    for k, mask in enumerate(masks):
        pixels = np.where(mask > 0, levels[1], levels[0]).astype(dtype)
        write_image(folder / f"m{k}{suffix}", pixels)
    return folder
