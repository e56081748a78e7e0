"""The loader of the Weizmann horses, on pictures made here, and noise by image."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import logsuper as ls
from logsuper.datasets import corrupt, load_weizmann


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three pictures in the layout of the database, one with another aspect."""
    home = tmp_path / "weizmann_horse_db" / "figure_ground"
    home.mkdir(parents=True)
    for name, size in (("b", (40, 40)), ("a", (40, 40)), ("c", (80, 40))):
        picture = np.zeros(size[::-1], dtype=np.uint8)
        picture[:, : size[0] // 2] = 255
        Image.fromarray(picture).save(home / f"{name}.jpg", quality=100)
    return tmp_path


def test_reads_sorted_pictures(folder: Path) -> None:
    masks = load_weizmann(folder, (10, 20))
    assert masks.names == ("a", "b", "c")
    assert masks.images.shape == (3, 10, 20) and masks.images.dtype == np.uint8
    assert (masks.images[:, :, :10] == 1).all() and (masks.images[:, :, 10:] == 0).all()


@pytest.mark.parametrize("inside", ["", "weizmann_horse_db", "weizmann_horse_db/figure_ground"])
def test_any_level_of_the_folder_will_do(folder: Path, inside: str) -> None:
    assert load_weizmann(folder / inside, (10, 10)).names == ("a", "b", "c")


def test_box_filter_averages_whole_blocks(tmp_path: Path, seed: int) -> None:
    block = np.random.default_rng(seed).integers(0, 256, (40, 40)).astype(np.uint8)
    Image.fromarray(block).save(tmp_path / "x.jpg", quality=100)
    stored = np.asarray(Image.open(tmp_path / "x.jpg"), dtype=float)
    means = stored.reshape(10, 4, 10, 4).mean(axis=(1, 3))
    clear = np.abs(means - 127.5) > 1.0  # pillow rounds to whole levels
    found = load_weizmann(tmp_path, (10, 10)).images[0]
    assert (found == (means > 127.5))[clear].all()


def test_aspect(folder: Path) -> None:
    padded = load_weizmann(folder, (40, 40), aspect="pad").images[2]
    assert padded[:9].sum() == 0 and padded[12:28, :18].all()  # bars above and below
    cropped = load_weizmann(folder, (40, 40), aspect="crop").images[2]
    assert cropped[:, :18].all() and not cropped[:, 22:].any()


def test_fingerprint_depends_on_pixels_and_names(folder: Path) -> None:
    masks = load_weizmann(folder, (10, 10))
    assert masks.fingerprint == load_weizmann(folder, (10, 10)).fingerprint
    assert masks.fingerprint != load_weizmann(folder, (10, 12)).fingerprint
    assert masks.fingerprint != load_weizmann(folder, (10, 10), aspect="pad").fingerprint


def test_split_takes_first_and_last(folder: Path) -> None:
    masks = load_weizmann(folder, (10, 10), aspect="pad")
    train, test = masks.split(2, 1)
    assert (train == masks.images[:2]).all() and (test == masks.images[2:]).all()
    with pytest.raises(ValueError, match=r"train \+ test = 4.*only 3"):
        masks.split(2, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (0, 5)}, "shape"),
        ({"resample": "best"}, "resample must be one of box"),
        ({"aspect": "keep"}, "aspect must be"),
        ({"threshold": 1.0}, "threshold must lie"),
    ],
)
def test_refuses(folder: Path, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_weizmann(folder, **options)


def test_names_a_folder_without_pictures_and_a_broken_picture(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        load_weizmann(tmp_path)
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"bad\.jpg is not a picture"):
        load_weizmann(tmp_path)


def test_noise_of_an_image_is_its_own(seed: int) -> None:
    x = ls.make_silhouettes(4, seed=seed)
    z = corrupt(x, ls.Flips(0.2), seed)
    assert (z[1:2] != corrupt(x[1:2], ls.Flips(0.2), seed)).any()  # now it is image 0
    assert (z[:2] == corrupt(x[:2], ls.Flips(0.2), seed)).all()
    assert (z != corrupt(x, ls.Flips(0.2), seed + 1)).any()
    assert abs((z != x).mean() - 0.2) < 4 * np.sqrt(0.16 / x.size)
    with pytest.raises(TypeError, match="channel must be a Channel"):
        corrupt(x, 0.2)  # type: ignore[arg-type]


def claiming(path: Path, width: int, height: int) -> None:
    """Write a small picture whose header claims another size."""
    Image.new("L", (8, 8)).save(path, format="PNG")
    data = bytearray(path.read_bytes())
    data[16:24] = struct.pack(">II", width, height)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    path.write_bytes(data)


@pytest.mark.parametrize("side", [10_000, 30_000, 2**31 - 1])
def test_a_picture_that_claims_to_be_huge_is_refused(tmp_path: Path, side: int, traced) -> None:
    claiming(tmp_path / "x.jpg", side, side)

    def load() -> None:
        with pytest.raises(ValueError, match=r"path: .*x\.jpg is not a picture that can be read"):
            load_weizmann(tmp_path)

    assert traced(load) < 10**6


def test_other_formats_are_not_tried(tmp_path: Path) -> None:
    # Pillow would hand this to Ghostscript
    (tmp_path / "x.jpg").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n"
    )
    with pytest.raises(ValueError, match="cannot identify image file"):
        load_weizmann(tmp_path)


def test_damaged_pictures_are_refused(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    file = folder / "weizmann_horse_db" / "figure_ground" / "a.jpg"
    data = file.read_bytes()
    for _ in range(100):
        damaged = bytearray(data)
        for place in rng.integers(len(data), size=5):
            damaged[place] = rng.integers(256)
        file.write_bytes(damaged[: rng.integers(len(data))] if rng.random() < 0.5 else damaged)
        try:
            load_weizmann(folder, (10, 10))
        except ValueError as error:
            assert str(error).startswith(f"path: {file} is not a picture")
