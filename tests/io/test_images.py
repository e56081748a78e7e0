import os
import struct
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps

from logsuper.io import ImageFiles, find_images, inspect_image, read_image, write_image
from logsuper.io import _write as writing

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (7, 11)).astype(np.uint8)
BITS = GREY > 100
COLOR = RNG.integers(0, 256, (7, 11, 3)).astype(np.uint8)

TYPES = (bool, np.uint8, np.uint16, np.int32, np.float32, np.float64)
HOLDS = {
    ".png": (bool, np.uint8, np.uint16),
    ".bmp": (bool, np.uint8),
    ".pbm": (bool,),
    ".pgm": (np.uint8, np.uint16),
    ".pnm": (bool, np.uint8, np.uint16),
    ".tif": TYPES,
    ".ome.tif": TYPES,
    ".TIFF": TYPES,
    ".npy": TYPES,
}


def some(dtype, shape):
    values = np.random.default_rng(1).integers(0, 2 if dtype is bool else 200, shape)
    return values.astype(dtype)


# ------------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("suffix", HOLDS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(7, 11), (1, 1), (3, 7, 11)])
def test_what_is_written_is_read(tmp_path, suffix, dtype, shape):
    image, path = some(dtype, shape), tmp_path / f"new/image{suffix}"
    deep = suffix in (".npy", ".tif", ".TIFF", ".ome.tif")
    if dtype not in HOLDS[suffix] or (len(shape) == 3 and not deep):
        with pytest.raises(ValueError, match=r"cannot hold .*; write .tif or .npy"):
            write_image(path, image)
        assert not path.exists()
        return
    assert write_image(path, image) == path
    found, info = read_image(path), inspect_image(path)
    assert found.dtype == info.dtype == image.dtype
    assert found.shape == info.shape == image.shape
    assert np.array_equal(found, image) and not info.lossy


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".npy"])
def test_colours(tmp_path, suffix):
    path = write_image(tmp_path / f"photo{suffix}", COLOR, color=True)
    assert np.array_equal(read_image(path, color=True), COLOR)
    assert inspect_image(path, color=True).shape == (7, 11)
    grey = write_image(tmp_path / f"grey{suffix}", np.repeat(GREY[..., None], 3, -1), color=True)
    assert np.array_equal(read_image(grey, color=True), GREY)
    if suffix == ".npy":  # a last axis of three may be a volume
        assert read_image(path).shape == (7, 11, 3)
    else:
        assert np.array_equal(read_image(grey), GREY)
        with pytest.raises(ValueError, match=r"is in colour; a mask is grey"):
            read_image(path)


def test_nan_stays(tmp_path):
    image = np.array([[0.0, np.nan], [1.0, 0.5]], dtype=np.float32)
    for suffix in (".tif", ".npy"):
        found = read_image(write_image(tmp_path / f"x{suffix}", image))
        assert np.array_equal(found, image, equal_nan=True)


def test_nothing_is_replaced_without_force(tmp_path):
    path = write_image(tmp_path / "x.png", GREY)
    with pytest.raises(FileExistsError, match="is there already"):
        write_image(path, BITS)
    assert np.array_equal(read_image(path), GREY)
    write_image(path, BITS, force=True)
    assert np.array_equal(read_image(path), BITS)


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = write_image(tmp_path / "x.png", GREY)

    def fail(file, name, array, *, color):
        file.write(b"half an image")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "encode_image", fail)
    with pytest.raises(OSError, match="No space"):
        write_image(path, BITS, force=True)
    assert np.array_equal(read_image(path), GREY)
    assert [file.name for file in tmp_path.iterdir()] == ["x.png"]


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("x.jpg", GREY, "changes pixels; write .png"),
        ("x.xyz", GREY, "cannot write .xyz; use .png"),
        ("x", GREY, "without a suffix"),
        ("x.png", np.zeros(3), r"shape \(3,\) is not an image"),
        ("x.png", np.zeros((0, 3), dtype=np.uint8), "is not an image"),
        ("x.tif", np.zeros((2, 2), dtype=complex), "not real numbers"),
        ("x.tif", np.zeros((2, 2, 2, 2)), "is not an image or a volume"),
        ("x.png", np.zeros((2, 2, 2), dtype=np.uint8), "hold a volume; write .tif or .npy$"),
        ("x.png", np.zeros((2, 2, 3), dtype=np.uint8), "or give color=True"),
    ],
)
def test_what_cannot_be_written(tmp_path, name, array, words):
    with pytest.raises(ValueError, match=words):
        write_image(tmp_path / name, array)
    assert not list(tmp_path.iterdir())


# --------------------------------------------------------------------------------- rules of reading


def test_a_picture_is_known_by_its_content(tmp_path):
    Image.fromarray(GREY).save(tmp_path / "x.bin", format="PNG")
    tifffile.imwrite(tmp_path / "y.png", GREY)
    assert np.array_equal(read_image(tmp_path / "x.bin"), GREY)
    assert np.array_equal(read_image(tmp_path / "y.png"), GREY)
    assert inspect_image(tmp_path / "y.png").format == "TIFF"


def test_palettes(tmp_path):
    picture = Image.fromarray((GREY % 3).astype(np.uint8), mode=None).convert("P")
    picture = Image.frombytes("P", (11, 7), (GREY % 3).astype(np.uint8).tobytes())
    for name, colors in {
        "grey": [0, 0, 0, 9, 9, 9, 255, 255, 255],
        "red": [0] * 6 + [255, 0, 0],
    }.items():
        picture.putpalette(colors)
        for suffix in ("png", "tif", "bmp", "gif"):
            path = tmp_path / f"{name}.{suffix}"
            picture.save(path)
            if suffix in ("png", "tif"):
                assert np.array_equal(read_image(path, palette="indices"), GREY % 3)
            if name == "grey":
                assert np.array_equal(read_image(path), np.array([0, 9, 255])[GREY % 3])
            else:
                with pytest.raises(ValueError, match="is in colour"):
                    read_image(path)
                assert read_image(path, color=True).shape == (7, 11, 3)


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_alpha(tmp_path, mode, suffix):
    alpha = np.where(GREY % 5 == 0, 0, 255).astype(np.uint8)
    layers = [GREY] * (len(mode) - 1) + [alpha]
    Image.fromarray(np.stack(layers, axis=-1)).save(tmp_path / f"x.{suffix}")
    with pytest.raises(ValueError, match="has transparent pixels"):
        read_image(tmp_path / f"x.{suffix}")
    found = read_image(tmp_path / f"x.{suffix}", missing="alpha")
    assert np.array_equal(np.ma.getmaskarray(found), alpha == 0)
    assert np.array_equal(np.ma.getdata(found), GREY) and found.dtype == np.uint8
    assert np.array_equal(read_image(tmp_path / f"x.{suffix}", color=True), GREY)
    layers[-1] = np.full_like(GREY, 255)
    Image.fromarray(np.stack(layers, axis=-1)).save(tmp_path / f"y.{suffix}")
    for missing in (None, "alpha"):
        assert np.array_equal(read_image(tmp_path / f"y.{suffix}", missing=missing), GREY)


def test_a_transparent_colour_or_level(tmp_path):
    Image.fromarray(GREY).save(tmp_path / "x.png", transparency=int(GREY[0, 0]))
    found = read_image(tmp_path / "x.png", missing="alpha")
    assert np.array_equal(np.ma.getmaskarray(found), GREY == GREY[0, 0])


def test_missing_by_colour_and_by_level(tmp_path):
    image = np.repeat(GREY[..., None], 3, axis=-1)
    gone = GREY % 4 == 0
    image[gone] = (255, 0, 0)
    Image.fromarray(image).save(tmp_path / "x.png")
    found = read_image(tmp_path / "x.png", missing=(255, 0, 0))
    assert np.array_equal(np.ma.getmaskarray(found), gone)
    assert np.array_equal(found[~gone].data, GREY[~gone])
    with pytest.raises(ValueError, match="is in colour"):
        read_image(tmp_path / "x.png", missing=(0, 255, 0))
    Image.fromarray(GREY).save(tmp_path / "y.png")
    level = int(GREY[0, 0])
    for missing in (level, (level,) * 3):
        found = read_image(tmp_path / "y.png", missing=missing)
        assert np.array_equal(np.ma.getmaskarray(found), GREY == level)
    assert not np.ma.is_masked(read_image(tmp_path / "y.png", missing=(1, 2, 3)))
    wide = write_image(tmp_path / "z.png", 257 * GREY.astype(np.uint16))
    found = read_image(wide, missing=(level,) * 3)
    assert np.array_equal(np.ma.getmaskarray(found), GREY == level)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_upright_as_exif_says(tmp_path, orientation):
    picture = Image.fromarray(GREY)
    exif = picture.getexif()
    exif[0x0112] = orientation
    picture.save(tmp_path / "x.png", exif=exif)
    with Image.open(tmp_path / "x.png") as saved:
        upright = np.asarray(ImageOps.exif_transpose(saved))
    tags = [(274, "H", 1, orientation, True)]
    tifffile.imwrite(tmp_path / "x.tif", GREY, extratags=tags)
    tifffile.imwrite(
        tmp_path / "stack.tif", np.stack([GREY] * 3), photometric="minisblack", extratags=tags
    )
    for name in ("x.png", "x.tif"):
        assert np.array_equal(read_image(tmp_path / name), upright), name
        assert inspect_image(tmp_path / name).shape == upright.shape
    assert np.array_equal(read_image(tmp_path / "stack.tif"), np.stack([upright] * 3))


def test_jpeg_is_lossy_and_grey_if_its_colours_are(tmp_path):
    y, x = np.indices((32, 40))
    smooth = (4 * x + y).astype(np.uint8)
    Image.fromarray(np.repeat(smooth[..., None], 3, -1)).save(tmp_path / "x.jpg", quality=95)
    assert inspect_image(tmp_path / "x.jpg").lossy
    found = read_image(tmp_path / "x.jpg")
    assert found.shape == (32, 40) and np.abs(found.astype(int) - smooth).max() < 9


@pytest.mark.parametrize("compression", ["tiff_lzw", "packbits", "tiff_adobe_deflate", "raw"])
def test_compressed_tiff(tmp_path, compression):
    first, *rest = (Image.fromarray(GREY + k) for k in range(3))
    first.save(tmp_path / "x.tif", compression=compression)
    first.save(tmp_path / "s.tif", compression=compression, save_all=True, append_images=rest)
    assert np.array_equal(read_image(tmp_path / "x.tif"), GREY)
    assert np.array_equal(read_image(tmp_path / "s.tif"), np.stack([GREY, GREY + 1, GREY + 2]))


def test_bits_whose_white_is_zero(tmp_path):
    for compression in ("group4", "raw"):
        picture = Image.fromarray(BITS)
        picture.save(tmp_path / "x.tif", compression=compression, tiffinfo={262: 0})
        found = read_image(tmp_path / "x.tif")
        assert found.dtype == bool and np.array_equal(found, BITS)
    tifffile.imwrite(tmp_path / "y.tif", GREY, photometric="miniswhite")
    assert np.array_equal(read_image(tmp_path / "y.tif"), 255 - GREY)


def test_tiff_of_all_kinds(tmp_path):
    stack = RNG.integers(0, 2**16, (4, 5, 6)).astype(np.uint16)
    plain = {"photometric": "minisblack"}
    tifffile.imwrite(tmp_path / "big.tif", stack, bigtiff=True, **plain)
    tifffile.imwrite(tmp_path / "order.tif", stack, byteorder=">", **plain)
    tifffile.imwrite(tmp_path / "ome.ome.tif", stack[:, None], metadata={"axes": "ZCYX"}, **plain)
    tifffile.imwrite(tmp_path / "tiled.tif", stack, tile=(16, 16), **plain)
    tifffile.imwrite(tmp_path / "j.tif", stack, imagej=True, metadata={"axes": "TYX"})
    for path in tmp_path.iterdir():
        assert np.array_equal(read_image(path), stack), path
        assert inspect_image(path).shape == (4, 5, 6)
    planes = np.moveaxis(COLOR, -1, 0)
    tifffile.imwrite(tmp_path / "p.tif", planes, photometric="rgb", planarconfig="separate")
    assert np.array_equal(read_image(tmp_path / "p.tif", color=True), COLOR)


def test_pgm_of_any_largest_value(tmp_path):
    (tmp_path / "x.pgm").write_bytes(b"P2 3 1 1\n0 1 1\n")
    assert read_image(tmp_path / "x.pgm").tolist() == [[0, 255, 255]]
    (tmp_path / "x.pbm").write_bytes(b"P1 3 1\n0 1 1\n")
    assert read_image(tmp_path / "x.pbm").tolist() == [[True, False, False]]
    (tmp_path / "x.ppm").write_bytes(b"P6 2 1 255\n" + bytes(range(6)))
    assert read_image(tmp_path / "x.ppm", color=True).tolist() == [[[0, 1, 2], [3, 4, 5]]]
    (tmp_path / "x.ppm").write_bytes(b"P6 2 1 65535\n" + bytes(range(12)))
    for read in (read_image, inspect_image):
        with pytest.raises(ValueError, match="more than 8 bits per colour"):
            read(tmp_path / "x.ppm", True)


# ------------------------------------------------------------------------------------ bad files


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def make_bad(folder):
    """Return files that cannot be read, and what is said of them."""
    frames = [Image.fromarray(GREY + k) for k in range(2)]
    frames[0].save(folder / "film.gif", save_all=True, append_images=frames[1:])
    frames[0].save(folder / "film.png", save_all=True, append_images=frames[1:])
    Image.fromarray(COLOR).convert("CMYK").save(folder / "print.jpg")
    tifffile.imwrite(folder / "print.tif", np.zeros((4, 4, 4), np.uint8), photometric="separated")
    Image.fromarray(GREY).save(folder / "whole.png")
    data = (folder / "whole.png").read_bytes()
    (folder / "cut.png").write_bytes(data[: len(data) // 2])
    (folder / "whole.png").unlink()
    tifffile.imwrite(folder / "cut.tif", np.zeros((64, 64), dtype=np.uint8))
    data = (folder / "cut.tif").read_bytes()
    (folder / "cut.tif").write_bytes(data[: len(data) // 3])
    (folder / "head.tif").write_bytes(b"II*\0")
    (folder / "empty.png").touch()
    (folder / "text.png").write_text("no image\n")
    (folder / "noise.jpg").write_bytes(bytes(range(256)) * 4)
    size = struct.pack(">IIBBBBB", 40000, 40000, 8, 0, 0, 0, 0)
    (folder / "bomb.png").write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", size)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )
    with tifffile.TiffWriter(folder / "mixed.tif") as file:
        file.write(np.zeros((4, 4), np.uint8))
        file.write(np.zeros((5, 6), np.uint8))
    tifffile.imwrite(
        folder / "five.tif",
        np.zeros((2, 3, 4, 5), np.uint8),
        photometric="minisblack",
        metadata={"axes": "TZYX"},
    )
    tifffile.imwrite(
        folder / "two.tif",
        np.zeros((4, 4, 5), np.uint8),
        planarconfig="contig",
        photometric="minisblack",
        metadata={"axes": "YXS"},
    )
    np.save(folder / "object.npy", np.array([[None]]), allow_pickle=True)
    np.save(folder / "complex.npy", np.zeros((2, 2), dtype=complex))
    np.save(folder / "line.npy", np.zeros(5))
    np.save(folder / "none.npy", np.zeros((0, 5)))
    np.save(folder / "short.npy", np.zeros((50, 50)))
    data = (folder / "short.npy").read_bytes()
    (folder / "short.npy").write_bytes(data[:200])
    return {
        "film.gif": "animation", "film.png": "animation", "print.jpg": "CMYK", "print.tif": "CMYK",
        "cut.png": "truncated", "cut.tif": "truncated", "head.tif": "truncated|no image",
        "empty.png": "is empty", "text.png": "not an image", "noise.jpg": "not an image",
        "bomb.png": "decompression bomb", "mixed.tif": "split it", "five.tif": "split it",
        "two.tif": "channels", "object.npy": "npy file of numbers", "complex.npy": "not real",
        "line.npy": "2 axes", "none.npy": "without a pixel", "short.npy": "truncated",
    }  # fmt: skip


def test_bad_files_are_refused_in_one_line(tmp_path, capfd):
    bad = make_bad(tmp_path)
    for name, words in bad.items():
        with pytest.raises(ValueError, match=words) as caught:
            read_image(tmp_path / name)
        text = str(caught.value)
        assert text.startswith(str(tmp_path / name)) and "\n" not in text, text
        assert len(text) < 400
    assert {path.name for path in tmp_path.iterdir()} == set(bad)
    assert capfd.readouterr() == ("", "")  # tifffile logs


def test_folders_and_files_that_are_not_there(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_image(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "none.png")
    with pytest.raises(FileNotFoundError, match="no such file"):
        find_images(tmp_path / "none.png")
    with pytest.raises(ValueError, match="missing must be"):
        read_image(write_image(tmp_path / "x.png", GREY), missing="red")
    with pytest.raises(ValueError, match="palette"):
        read_image(tmp_path / "x.png", palette="rainbow")


def test_more_than_fits_into_memory_is_refused_before_reading(tmp_path):
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 17, 1 << 20)}
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        try:
            file.truncate((1 << 40) + 4096)  # a terabyte, but sparse
        except OSError:
            pytest.skip("no sparse files of this size here")
    with pytest.raises(MemoryError, match=r"needs 1\.1 TB of memory"):
        read_image(tmp_path / "x.npy")


# -------------------------------------------------------------------------------------- many files


def test_images_of_folders(tmp_path):
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "folder.png").mkdir()
    for name in ("b.PNG", "a.tif", "c.npy", ".hidden.png", "notes.txt", "deep/d.png"):
        (tmp_path / "a" / name).touch()
    (tmp_path / "odd.name").touch()
    found = find_images([tmp_path / "odd.name", tmp_path / "a", tmp_path / "a" / "b.PNG"])
    assert [path.name for path in found] == ["odd.name", "a.tif", "b.PNG", "c.npy"]
    assert find_images(str(tmp_path / "a" / "deep")) == [tmp_path / "a" / "deep" / "d.png"]


def test_files_are_read_when_they_are_indexed(tmp_path):
    for k in range(4):
        write_image(tmp_path / f"{k}.png", np.full((k + 1, 3), k, dtype=np.uint8))
    images = ImageFiles(tmp_path)
    assert len(images) == 4 and images[-1].shape == (4, 3)
    assert [image.shape for image in images[1:3]] == [(2, 3), (3, 3)]
    (tmp_path / "2.png").write_bytes(b"")
    assert ImageFiles(tmp_path).info(3).shape == (4, 3)
    with pytest.raises(ValueError, match="is empty"):
        images[2]
    with pytest.raises(IndexError):
        images[4]


def test_zarr(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    stack = RNG.integers(0, 255, (3, 4, 5)).astype(np.uint8)
    zarr.save(str(tmp_path / "x.zarr"), stack)
    assert np.array_equal(read_image(tmp_path / "x.zarr"), stack)
    assert find_images(tmp_path) == [tmp_path / "x.zarr"]


def test_zarr_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    stack = RNG.integers(0, 9, (3, 4, 5)).astype(np.uint16)
    path = write_image(tmp_path / "x.zarr", stack)
    assert np.array_equal(read_image(path), stack) and inspect_image(path).dtype == np.uint16
    with pytest.raises(FileExistsError, match="is there already"):
        write_image(path, stack + 1)

    def fail(name, array):
        open(os.path.join(name, "half"), "w").close()
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(zarr, "save_array", fail)
        with pytest.raises(OSError, match="disk full"):
            write_image(path, stack + 1, force=True)
    assert np.array_equal(read_image(path), stack)
    (tmp_path / f".{'0' * 16}.{2**22 + 1}.logsuper.parts").mkdir()  # of a killed process
    write_image(path, stack + 1, force=True)
    assert np.array_equal(read_image(path), stack + 1)
    assert os.listdir(tmp_path) == ["x.zarr"]


def test_zarr_that_is_not_installed_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zarr", None)
    (tmp_path / "x.zarr").mkdir()
    with pytest.raises(ValueError, match="zarr needs the package zarr"):
        read_image(tmp_path / "x.zarr")
