"""The page in a real browser: chromium of the system, driven by playwright."""

import base64
import io
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import logsuper as ls

pytest.importorskip("starlette", reason="the extra studio is not installed")
pytest.importorskip("uvicorn", reason="the extra studio is not installed")
api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = api.expect

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on the PATH")

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 60_000  # milliseconds, on a machine with other things to do

# Every visible text has a contrast of at least 4.5 with what is behind it.
CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].reduce((sum, v, i) => {
    const c = v / 255, linear = c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    return sum + [0.2126, 0.7152, 0.0722][i] * linear;
  }, 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.closest(".unseen, :disabled, noscript")) continue;
    if (e.parentElement.querySelector("input:disabled")) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(`${e.textContent.trim()}: ${ratio.toFixed(2)}`);
  }
  return bad;
}"""


def start():
    command = [sys.executable, "-m", "logsuper", "studio", "--no-browser"]
    package = os.path.dirname(os.path.dirname(ls.__file__))
    environment = {**os.environ, "PYTHONPATH": package, "OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    return server, re.search(r"http://127\.0\.0\.1:\d+/\S+/", server.stdout.readline()).group()


def stop(server):
    server.send_signal(signal.SIGINT)
    rest = server.communicate(timeout=20)[0]
    assert server.returncode == 0 and rest == "The studio is closed.\n"


@pytest.fixture(scope="module")
def address():
    server, found = start()
    yield found
    stop(server)


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as play:
        found = play.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def visit(browser, address):
    """Open the page; at the end, nothing may have gone wrong behind the scenes."""
    contexts, wrong = [], []

    def open_page(where=address, width=1280, height=800, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: m.type == "error" and wrong.append(m.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: r.url.startswith((where, "blob:")) or wrong.append(r.url))
        page.goto(where)
        says(page, "Drop or open an image.")
        return page

    open_page.wrong = wrong
    yield open_page
    for context in contexts:
        context.close()
    assert not wrong


def says(page, text):
    expect(page.locator("#status")).to_contain_text(text, timeout=PATIENCE)


def choose(page, name, value):
    page.locator(f"[name={name}][value='{value}']").check(force=True)


def stroke(page, start, end):
    """Draw a line; places are shares of the width and the height of the canvas."""
    box = page.locator("#stage").bounding_box()
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=4)
    page.mouse.up()


def drop(page, name, data):
    content = base64.b64encode(data).decode()
    transfer = page.evaluate_handle(
        """([name, content]) => {
          const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
          const transfer = new DataTransfer();
          transfer.items.add(new File([bytes], name));
          return transfer;
        }""",
        [name, content],
    )
    page.dispatch_event("body", "drop", {"dataTransfer": transfer})


def export(page, kind):
    page.locator("#export").click()
    with page.expect_download() as caught:
        page.locator(f"[data-export='{kind}']").click()
    return Path(caught.value.path()).read_bytes()


def decoded(data):
    return np.asarray(Image.open(io.BytesIO(data)))


def scene():
    picture = io.BytesIO()
    image = ls.make_scenes(1, (60, 80), seed=4).images[0]
    Image.fromarray(image).save(picture, "PNG")
    return image, picture.getvalue()


IN_DOUBT = re.compile("yellow|No region")


def test_drop_paint_undo_export(visit):
    page, (image, data) = visit(), scene()
    drop(page, "scene.png", data)
    says(page, "Paint over a part of the object")
    expect(page.locator("#undo")).to_be_disabled()
    stroke(page, (0.4, 0.5), (0.55, 0.5))
    says(page, "Now paint over a part of the background")
    page.keyboard.press("b")
    stroke(page, (0.15, 0.15), (0.8, 0.12))
    says(page, IN_DOUBT)
    first = page.locator("#share").inner_text()
    stroke(page, (0.15, 0.9), (0.8, 0.92))
    expect(page.locator("#share")).not_to_have_text(first)
    says(page, IN_DOUBT)
    second = page.locator("#share").inner_text()
    page.keyboard.press("Control+z")
    expect(page.locator("#share")).to_have_text(first)
    page.keyboard.press("Control+Shift+Z")
    expect(page.locator("#share")).to_have_text(second)
    says(page, IN_DOUBT)

    scribbles = decoded(export(page, "scribbles.png"))
    assert set(np.unique(scribbles)) == {0, 1, 2}
    found = ls.segment(image, scribbles)
    np.testing.assert_array_equal(decoded(export(page, "mask.png")), 255 * found.mask)
    p = decoded(export(page, "probability.png"))
    np.testing.assert_array_equal(p, np.round(65535 * found.probability))
    assert "read_image('scene.png'" in export(page, "code.py").decode()
    assert export(page, "model.npz").startswith(b"PK")

    for view in ("mask", "probability", "image", "cut"):
        choose(page, "segment-view", view)
    page.locator("#zoom-in").click()
    page.keyboard.press("0")
    page.locator("#clear").click()
    says(page, "Paint over a part of the object")


def test_the_keyboard_alone(visit):
    page = visit()
    page.locator("[data-shipped=scene-0]").focus()
    page.keyboard.press("Enter")
    says(page, "Paint over a part of the object")
    page.locator("#stage").focus()
    page.keyboard.press("Space")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    says(page, "Now paint over a part of the background")
    expect(page.locator("#spoken")).to_have_text("Pen up")
    page.keyboard.press("b")
    for _ in range(11):
        page.keyboard.press("Shift+ArrowUp")
    page.keyboard.press("Enter")
    says(page, IN_DOUBT)
    page.keyboard.press("n")
    expect(page.locator("#spoken")).to_contain_text("Region 1")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    expect(page.locator("#stage")).to_have_attribute("aria-label", re.compile("exact cut, object"))


def test_cleaning(visit):
    page = visit()
    page.locator("[data-shipped=silhouette-1]").click()
    says(page, "Certified.")
    before, after = (float(x.strip(" %")) for x in page.locator("#truth").inner_text().split("→"))
    assert 9 < before < 11 and after < 1
    lower, upper = (float(page.locator(f"#z-{end}").inner_text()) for end in ("lower", "upper"))
    assert lower <= upper < lower + 0.1
    page.locator("#horizontal").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("[name=origin][value=hand]")).to_be_checked()
    says(page, "Certified.")
    assert float(page.locator("#z-lower").inner_text()) < lower  # more weight, less sum
    choose(page, "clean-view", "samples")
    says(page, "16 exact samples.")
    expect(page.locator("#play")).to_have_text("Pause")
    page.locator("#play").click()
    expect(page.locator("#play")).to_have_text("Play")
    page.locator("#noise").fill("20")
    page.locator("#noise").dispatch_event("change")
    expect(page.locator("#truth")).to_contain_text(re.compile(r"^(19|20|21)\."))
    mask = decoded(export(page, "mask.png"))
    assert mask.shape == (120, 160) and set(np.unique(mask)) == {0, 255}


def test_nothing_moves_unless_wanted(visit):
    page = visit(reduced_motion="reduce")
    page.locator("[data-shipped=silhouette-0]").click()
    says(page, "Certified.")
    page.keyboard.press("5")
    says(page, "16 exact samples.")
    expect(page.locator("#play")).to_have_text("Play")


def test_files_that_are_no_images(visit):
    page = visit()
    drop(page, "notes.txt", b"no image")
    expect(page.locator("#alert")).to_contain_text("notes.txt: not a PNG, JPEG")
    page.locator("#alert-close").click()
    expect(page.locator("#alert")).to_be_hidden()
    drop(page, "<img src=x onerror=alert(1)>.png", b"")
    expect(page.locator("#alert")).to_contain_text("<img src=x onerror=alert(1)>.png: the file is")
    # the browser itself reports the status of the answers
    assert len(visit.wrong) == 2 and all("status of 4" in text for text in visit.wrong)
    visit.wrong.clear()
    drop(page, "scene.png", scene()[1])
    says(page, "Paint over a part of the object")
    page.locator("#export").click()
    page.locator("[data-export='mask.png']").click()
    expect(page.locator("#alert")).to_contain_text("mark a part of the object first")
    visit.wrong.clear()


def test_every_width_and_scheme(visit):
    page = visit()

    def fits():
        for width, scheme in itertools.product((390, 1280, 2560), ("light", "dark")):
            page.set_viewport_size({"width": width, "height": 844})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator(".panel").evaluate("e => e.scrollWidth <= e.clientWidth")
            assert page.evaluate(CONTRAST) == [], (width, scheme)

    fits()
    page.locator("[data-shipped=silhouette-0]").click()
    says(page, "Certified.")
    fits()
    page.locator("[name=mode][value=segment]").check(force=True)
    says(page, "Paint over a part of the object")
    fits()
    page.keyboard.press("?")
    fits()


def test_the_end_of_the_server(visit):
    server, where = start()
    page = visit(where)
    page.locator("[data-shipped=silhouette-0]").click()
    says(page, "Learning")
    stop(server)  # at work, and with an open tab
    expect(page.locator("#alert")).to_contain_text("Start it again")
    visit.wrong.clear()  # what was on its way did not arrive
