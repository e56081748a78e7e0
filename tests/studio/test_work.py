"""What tabs compute and export: the same as the package does without them."""

import asyncio
import io
import runpy
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

import logsuper as ls
from logsuper.io import read_image
from logsuper.studio._cleaning import Cleaning, Weights
from logsuper.studio._desk import Desk, Outdated
from logsuper.studio._limits import Limits, Refusal
from logsuper.studio._segmenting import Segmenting
from logsuper.studio._sources import SHIPPED, decode, open_path, open_shipped

LIMITS = Limits()


def nothing():
    return None


def as_file(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def scene(shape=(48, 64)):
    images, _, scribbles = ls.make_scenes(1, shape, seed=0)
    return images[0], scribbles[0]


def runs_of(labels):
    """Return labels as runs of single pixels."""
    flat = labels.ravel()
    at = np.flatnonzero(flat)
    return np.stack([at, np.ones_like(at), flat[at]], axis=1).astype(np.uint32).ravel()


# ----------------------------------------------------------------------------------------- images

GREY = np.random.default_rng(0).integers(0, 256, (9, 12), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (9, 12, 4), dtype=np.uint8)
TURNED = Image.Exif()
TURNED[0x0112] = 6  # a quarter turn
PICTURES = {
    "grey.png": as_file(Image.fromarray(GREY)),
    "bits.png": as_file(Image.fromarray(GREY > 99)),
    "wide.png": as_file(Image.fromarray(GREY.astype(np.uint16) * 257 + 3)),
    "rgb.png": as_file(Image.fromarray(COLOUR[..., :3])),
    "rgba.png": as_file(Image.fromarray(COLOUR)),
    "la.png": as_file(Image.fromarray(GREY).convert("LA")),
    "palette.png": as_file(Image.fromarray(COLOUR[..., :3]).quantize(7)),
    "grey_rgb.png": as_file(Image.fromarray(np.repeat(GREY[..., None], 3, axis=-1))),
    "photo.jpg": as_file(Image.fromarray(COLOUR[..., :3]), "JPEG"),
    "grey.jpg": as_file(Image.fromarray(np.repeat(GREY[..., None], 3, axis=-1)), "JPEG"),
    "turned.jpg": as_file(Image.fromarray(GREY), "JPEG", exif=TURNED),
    "grey.bmp": as_file(Image.fromarray(GREY), "BMP"),
    "grey.pgm": as_file(Image.fromarray(GREY), "PPM"),
    "still.gif": as_file(Image.fromarray(GREY), "GIF"),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_dropped_files_are_what_read_image_reads(tmp_path, name):
    (tmp_path / name).write_bytes(PICTURES[name])
    expected = read_image(tmp_path / name, color=True)
    found = decode(PICTURES[name], name, LIMITS).pixels
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(open_path(tmp_path / name, LIMITS).pixels, expected)


def test_large_images_are_worked_on_at_a_smaller_scale():
    image = np.zeros((50, 70), np.uint8)
    image[10:30, 20:50] = 255
    source = decode(as_file(Image.fromarray(image)), "large.png", Limits(work=1000))
    assert source.step == 2 and source.shape == (25, 35) and source.full == (50, 70)
    np.testing.assert_array_equal(source.enlarge(source.pixels), image)


def test_volumes_are_refused(tmp_path):
    path = tmp_path / "volume.npy"
    np.save(path, np.zeros((5, 6, 7)))
    with pytest.raises(Refusal, match="a volume"):
        open_path(path, LIMITS)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_images_come_with_the_code_that_makes_them(name):
    source = open_shipped(name)
    space = {"ls": ls}
    exec("\n".join(source.code), space)
    np.testing.assert_array_equal(space["image"], source.pixels)


# ---------------------------------------------------------------------------------------- segment


@pytest.mark.parametrize("work", [LIMITS.work, 1000], ids=["whole", "every second"])
def test_the_exported_code_makes_the_same_mask(tmp_path, monkeypatch, work):
    image, scribbles = scene()
    name = "it's {a} photo'); raise SystemExit('.png"  # nothing in a name becomes code
    data = as_file(Image.fromarray(image))
    source = decode(data, name, Limits(work=work))
    segmenting = Segmenting(source)
    step = source.step
    segmenting.paint(runs_of(scribbles[::step, ::step]), 1)
    files = ["mask.png", "probability.png", "scribbles.png", "model.npz", "code.py"]
    exported = {kind: segmenting.export(kind, nothing) for kind in files}
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(data)
    for kind in ("scribbles.png", "code.py", "model.npz"):
        (tmp_path / kind).write_bytes(exported[kind])
    runpy.run_path("code.py")
    for kind in ("mask.png", "probability.png"):
        made, given = read_image(tmp_path / kind), read_image(io_path(tmp_path, kind, exported))
        np.testing.assert_array_equal(made, given)
        assert made.shape == image.shape[:2]
    assert 0 < read_image("mask.png").mean() < 255
    assert read_image("probability.png").dtype == np.uint16
    model = ls.load_model("model.npz")
    found = model.segment(image[::step, ::step], scribbles[::step, ::step])
    np.testing.assert_array_equal(source.enlarge(found.mask) * 255, read_image("mask.png"))


def io_path(folder, kind, exported):
    (folder / f"given_{kind}").write_bytes(exported[kind])
    return folder / f"given_{kind}"


def test_a_quick_cut_is_settled_before_it_is_exported():
    image, scribbles = scene()
    segmenting = Segmenting(decode(as_file(Image.fromarray(image)), "a.png", LIMITS))
    segmenting.paint(runs_of(np.where(np.arange(64) < 32, scribbles, 0)), 1)
    segmenting.cut(nothing)
    segmenting.paint(runs_of(scribbles), 2)
    segmenting.cut(nothing, quick=True)
    expected = ls.segment(image, scribbles).mask
    np.testing.assert_array_equal(segmenting.settled(nothing).mask, expected)


def test_without_scribbles_there_is_no_mask():
    segmenting = Segmenting(open_shipped("scene-0"))
    assert segmenting.cut(nothing) is None
    with pytest.raises(Refusal, match="mark a part of the object first"):
        segmenting.export("mask.png", nothing)
    segmenting.paint(np.array([0, 5, 1], np.uint32), 1)
    with pytest.raises(Refusal, match="mark a part of the background first"):
        segmenting.export("mask.png", nothing)


def test_refining_can_be_stopped():
    image, scribbles = scene()
    segmenting = Segmenting(decode(as_file(Image.fromarray(image)), "a.png", LIMITS))
    segmenting.paint(runs_of(scribbles), 1)
    segmenting.cut(nothing)

    def stop():
        raise Outdated

    with pytest.raises(Outdated):
        segmenting.refine(stop)
    assert segmenting.refine(nothing).probability.shape == (48, 64)


# ------------------------------------------------------------------------------------------ clean


@pytest.fixture(scope="module")
def cleaning():
    found = Cleaning(open_shipped("silhouette-0"))
    found.learn("silhouettes", None, nothing)
    return found


def test_cleaning_removes_noise_and_says_how_sure_it_is(cleaning):
    truth = cleaning.source.truth
    found = cleaning.infer(nothing)
    before, mask = (cleaning.observed != truth).mean(), found.values > 0.5
    assert 0.09 < before < 0.11 and (mask != truth).mean() < 0.01
    assert (cleaning.doubt(found) >= np.minimum(found.values, 1 - found.values) - 1e-12).all()
    bracket = cleaning.bound(nothing)
    assert bracket.lower <= bracket.upper < bracket.lower + 0.1
    quick = cleaning.quick(nothing)
    assert (quick.lower <= found.upper).all() and (found.lower <= quick.upper).all()


def test_samples_are_masks_like_the_posterior(cleaning):
    samples = cleaning.sample(0, nothing)
    assert samples.shape == (16, 120, 160)
    mean = cleaning.infer(nothing).values.mean()
    assert abs(samples.mean() - mean) < 0.005


def test_the_exported_code_cleans_alike(tmp_path, monkeypatch, cleaning):
    monkeypatch.chdir(tmp_path)
    exported = {k: cleaning.export(k, nothing) for k in ("mask.png", "probability.png", "code.py")}
    (tmp_path / "code.py").write_bytes(exported["code.py"])
    runpy.run_path("code.py")
    for kind in ("mask.png", "probability.png"):
        given = read_image(io_path(tmp_path, kind, exported))
        np.testing.assert_array_equal(read_image(kind), given)
    (tmp_path / "model.npz").write_bytes(cleaning.export("model.npz", nothing))
    masks = ls.load_model("model.npz").predict([cleaning.observed])
    np.testing.assert_array_equal(255 * masks[0], read_image("mask.png"))


def test_weights_by_hand_are_in_the_model_and_in_the_code(tmp_path, cleaning):
    kept = cleaning.weights, cleaning.origin
    try:
        cleaning.set_weights(Weights(0.25, 0.5, 0.125))
        (tmp_path / "model.npz").write_bytes(cleaning.export("model.npz", nothing))
        assert ls.load_model(tmp_path / "model.npz").alpha_.tolist() == [0.25, 0.5]
        assert "0.25 * across + 0.5 * down" in cleaning.code()
    finally:
        cleaning.weights, cleaning.origin = kept


def test_without_weights_pixels_are_independent(cleaning):
    kept = cleaning.weights, cleaning.origin
    try:
        cleaning.set_weights(Weights(0.0, 0.0, 0.0))
        for found in (cleaning.quick(nothing), cleaning.infer(nothing)):
            np.testing.assert_allclose(
                found.values, np.where(cleaning.observed, 0.9, 0.1), atol=1e-6
            )
        assert "method='exact'" in cleaning.code() and found.shape == (120, 160)
        cleaning.set_weights(Weights(0.0, 1.0, 0.0))
        assert cleaning.infer(nothing).method == "strips"
    finally:
        cleaning.weights, cleaning.origin = kept


def test_grey_images_have_gaussian_noise(tmp_path, monkeypatch):
    clean = ls.make_silhouettes(1, (40, 50), seed=3)[0]
    noisy = 80.0 + 90.0 * clean + np.random.default_rng(0).normal(0.0, 30.0, clean.shape)
    data = as_file(Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)))
    cleaning = Cleaning(decode(data, "grey.png", LIMITS))
    assert not cleaning.binary
    cleaning.learn("image", None, nothing)
    assert ((cleaning.infer(nothing).values > 0.5) != clean).mean() < 0.05
    with pytest.raises(Refusal, match="learned from them"):
        cleaning.set_noise(0.1)
    mask = cleaning.export("mask.png", nothing)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grey.png").write_bytes(data)
    (tmp_path / "code.py").write_text(cleaning.code())
    runpy.run_path("code.py")
    np.testing.assert_array_equal(read_image("mask.png"), np.asarray(Image.open(io.BytesIO(mask))))


def test_what_cannot_be_cleaned():
    with pytest.raises(Refusal, match="colours"):
        Cleaning(open_shipped("scene-0"))
    flat = decode(as_file(Image.fromarray(np.zeros((9, 9), np.uint8))), "flat.png", LIMITS)
    with pytest.raises(Refusal, match="nothing to clean"):
        Cleaning(flat)


# ------------------------------------------------------------------------------------------- desk


def test_newer_work_replaces_older():
    log, errors = [], []

    async def main():
        async def fail(line):
            errors.append(line)

        async def done(found):
            log.append(found)

        with ThreadPoolExecutor(2) as pool:
            desk = Desk(pool, fail)
            worker = asyncio.create_task(desk.run())
            begun = threading.Event()

            def endless(check):
                begun.set()
                while True:
                    check()

            desk.put(Desk.REFINE, endless, done)
            await asyncio.to_thread(begun.wait, 10)
            desk.put(Desk.SAMPLE, lambda check: "later stage, dropped with the next line", done)
            desk.put(Desk.CUT, lambda check: "cut", done)  # ends the endless one
            desk.put(Desk.REFINE, lambda check: "refined", done)
            while len(log) < 2:
                await asyncio.sleep(0.001)
            desk.put(Desk.OPEN, lambda check: 1 / 0, done)
            desk.put(Desk.LEARN, lambda check: int("x"), done)
            while len(errors) < 2:
                await asyncio.sleep(0.001)
            worker.cancel()

    asyncio.run(asyncio.wait_for(main(), 30))
    assert log == ["cut", "refined"]
    assert errors[0].startswith("unexpected ZeroDivisionError") and "invalid literal" in errors[1]
