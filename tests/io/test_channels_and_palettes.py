"""Channels of microscopes, PNG of several channels with 16 bits, and palettes of two colours."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image

from logsuper.io import encode_image, inspect_image, read_image, read_mask

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (3, 2, 5, 6)).astype(np.uint8)


@pytest.mark.parametrize(
    ("axes", "shape"),
    [("CYX", (2, 5, 6)), ("ZCYX", (3, 2, 5, 6)), ("CZYX", (2, 3, 5, 6)), ("CYX", (4, 5, 6))],
)
@pytest.mark.parametrize("name", ["x.tif", "x.ome.tif"])
def test_channels_that_differ_are_refused_and_the_remedy_works(
    tmp_path, monkeypatch, axes, shape, name
):
    monkeypatch.chdir(tmp_path)
    stack = RNG.integers(0, 256, shape).astype(np.uint8)
    tifffile.imwrite(name, stack, metadata={"axes": axes}, photometric="minisblack")
    channels = shape[axes.index("C")]
    with pytest.raises(ValueError, match=f"has {channels} channels.*and a mask has one") as found:
        read_image(name)
    remedy = str(found.value).split("the first by ")[1]
    exec(remedy, {"tifffile": tifffile})
    assert np.array_equal(read_image("one.tif"), stack.take(0, axes.index("C")))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_channels_that_are_equal_are_one_image(tmp_path, count):
    stack = np.stack([GREY[:, 0]] * count, axis=1)
    tifffile.imwrite(tmp_path / "x.tif", stack, metadata={"axes": "ZCYX"}, photometric="minisblack")
    assert np.array_equal(read_image(tmp_path / "x.tif"), GREY[:, 0])
    assert inspect_image(tmp_path / "x.tif").shape == (3, 5, 6)


def test_three_channels_are_colours_of_a_photograph(tmp_path):
    tifffile.imwrite(
        tmp_path / "x.tif", GREY[:, 0], metadata={"axes": "CYX"}, photometric="minisblack"
    )
    found = read_image(tmp_path / "x.tif", color=True)
    assert np.array_equal(found, np.moveaxis(GREY[:, 0], 0, -1))
    with pytest.raises(ValueError, match="has 3 channels"):
        read_image(tmp_path / "x.tif")


# ------------------------------------------------------------------------------ 16 bits per channel


def png16(pixels, kind, interlaced=False, extra=b""):
    """Return a PNG with 16 bits per channel."""

    def chunk(name, data):
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    height, width = pixels.shape[:2]
    passes = [pixels]
    if interlaced:  # the seven passes of Adam7: first rows and columns, and steps
        starts = [
            (0, 0, 8, 8),
            (0, 4, 8, 8),
            (4, 0, 8, 4),
            (0, 2, 4, 4),
            (2, 0, 4, 2),
            (0, 1, 2, 2),
        ]
        passes = [pixels[y::dy, x::dx] for y, x, dy, dx in [*starts, (1, 0, 2, 1)]]
    rows = [row for one in passes if one.size for row in one]
    data = b"".join(b"\0" + row.astype(">u2").tobytes() for row in rows)
    head = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, int(interlaced))
    return b"".join(
        [b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", head), extra, chunk(b"IDAT", zlib.compress(data)),
         chunk(b"IEND", b"")]
    )  # fmt: skip


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_png_of_several_channels_keeps_16_bits(tmp_path, channels, interlaced):
    pixels = RNG.integers(0, 65536, (9, 7, channels)).astype(np.uint16)
    if channels != 3:
        pixels[..., -1] = 65535
    path = tmp_path / "x.png"
    path.write_bytes(png16(pixels, {2: 4, 3: 2, 4: 6}[channels], interlaced))
    found = read_image(path, color=True)
    wanted = pixels[..., 0] if channels == 2 else pixels[..., :3]
    assert found.dtype == np.uint16 and np.array_equal(found, wanted)
    assert inspect_image(path).dtype == np.uint16 and inspect_image(path).shape == (9, 7)


def test_grey_and_transparent_pixels_of_16_bits(tmp_path):
    levels = RNG.integers(0, 65536, (4, 5)).astype(np.uint16)
    pixels = np.stack([levels] * 3 + [np.full_like(levels, 65535)], axis=-1)
    pixels[1, 2, 3] = 30000  # less than half opaque
    (tmp_path / "x.png").write_bytes(png16(pixels, 6))
    with pytest.raises(ValueError, match="transparent pixels"):
        read_image(tmp_path / "x.png")
    found = read_image(tmp_path / "x.png", missing="alpha")
    assert np.array_equal(found.data, levels)
    assert np.argwhere(found.mask).tolist() == [[1, 2]]


def test_a_16_bit_png_with_exif_is_upright(tmp_path):
    pixels = RNG.integers(0, 65536, (4, 5, 3)).astype(np.uint16)
    exif = Image.Exif()
    exif[0x0112] = 6
    body = exif.tobytes().removeprefix(b"Exif\0\0")
    extra = struct.pack(">I", len(body)) + b"eXIf" + body
    extra += struct.pack(">I", zlib.crc32(b"eXIf" + body))
    (tmp_path / "x.png").write_bytes(png16(pixels, 2, extra=extra))
    found = read_image(tmp_path / "x.png", color=True)
    assert np.array_equal(found, np.rot90(pixels, -1))


# ----------------------------------------------------------------------------------------- palettes


def with_palette(path, indices, colors):
    with open(path, "wb") as file:
        palette = np.array(colors, dtype=np.uint8)
        encode_image(file, path.name, indices.astype(np.uint8), palette=palette)
    return path


BITS = RNG.integers(0, 2, (6, 9)).astype(np.uint8)
BLACK, WHITE, RED, BLUE = (0, 0, 0), (255, 255, 255), (128, 0, 0), (0, 0, 255)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif"])
@pytest.mark.parametrize(
    ("colors", "bright"),
    [((BLACK, RED), 1), ((RED, BLACK), 0), ((WHITE, BLUE), 0), ((BLUE, WHITE, RED), 1)],
)
def test_palettes_of_two_colours(tmp_path, suffix, colors, bright):
    path = with_palette(tmp_path / f"x{suffix}", BITS, colors)
    found = read_mask(path)
    assert found.levels == (1 - bright, bright)
    assert np.array_equal(found.pixels == bright, bright == BITS)
    assert found.palette[: len(colors)].tolist() == [list(color) for color in colors]
    # what is written is what was read
    file = io.BytesIO()
    encode_image(file, path.name, found.pixels, palette=found.palette)
    again = tmp_path / f"again{suffix}"
    again.write_bytes(file.getvalue())
    assert np.array_equal(read_mask(again).pixels, found.pixels)
    assert np.array_equal(read_image(again, palette="indices"), BITS)


def test_palettes_of_one_colour_and_of_equal_colours(tmp_path):
    zeros = np.zeros((3, 4), np.uint8)
    found = read_mask(with_palette(tmp_path / "a.png", zeros, [BLACK]))
    assert found.levels == (0, 1) and found.palette.tolist() == [[0, 0, 0], [255, 255, 255]]
    found = read_mask(with_palette(tmp_path / "b.png", zeros, [RED, BLACK]))
    assert found.levels == (1, 0)  # a colour but black is one
    found = read_mask(with_palette(tmp_path / "c.png", BITS, [RED, RED]))
    assert found.levels == (2, 0) and not found.palette[2].any() and (found.pixels == 0).all()
    found = read_mask(with_palette(tmp_path / "d.png", zeros, [BLACK] * 256))
    assert found.levels == (0, 1) and found.palette.shape == (256, 3)


def test_a_third_colour_may_be_missing(tmp_path):
    path = with_palette(tmp_path / "x.png", BITS + (BITS[::-1] & 1), [BLACK, WHITE, RED])
    with pytest.raises(ValueError, match="is in colour"):
        read_mask(path)
    found = read_mask(path, missing=RED)
    assert found.levels == (0, 1) and np.array_equal(found.pixels.mask, BITS + BITS[::-1] == 2)


def test_palettes_of_many_greys_are_grey(tmp_path):
    path = with_palette(tmp_path / "x.png", BITS * 2 + 1, [(k, k, k) for k in range(0, 250, 50)])
    assert read_mask(path).levels == (1, 3)
    levels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    path = with_palette(tmp_path / "y.png", levels, [(40 * k,) * 3 for k in range(6)])
    found = read_mask(path)
    assert found.palette is None and np.array_equal(found.pixels, 40 * levels)
