"""How fast the cut follows the pen in a browser: `python -m benchmarks.studio`.

A drawn scene of 640x480 pixels, `logsuper studio` and chromium, driven by playwright. A stroke is a
press, eight moves of the pointer at the pace of a hand, and a release. What is measured is the time
from an event of the pointer, by its own time stamp, until the cut that includes it has been drawn
on the canvas, for the press and for the last move of each stroke. Strokes are made at random
places, within the object or the background, and labelled as they should be; then, on a new page,
labelled in turn whatever they cover, which contradicts the picture and makes cuts hard. The exit
code is 1 if the median over the strokes of the first kind is 100 ms or more.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

import logsuper as ls
from benchmarks.tables import show
from logsuper.report import Table

SHAPE = (480, 640)
STROKES, MOVES = 50, 8
PACE = 16  # milliseconds between two moves
REST = 250  # milliseconds between two strokes
LIMIT = 100.0
MARGIN = 40  # pixels of the page beside an image that fills its stage
NAME = "stroke to pixels"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def serving(image: Path) -> Iterator[str]:
    """Run the studio; yield the address of its page."""
    command = [sys.executable, "-m", "logsuper", "studio", str(image), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield re.search(r"http\S+", server.stdout.readline()).group()  # type: ignore[union-attr]
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)


def measure(
    address: str, browser: str, strokes: int, truth: np.ndarray | None
) -> list[tuple[float, float, float]]:
    """Return milliseconds of each stroke: to the press, to the last move, and of the server.

    Strokes cover one label of the true mask and have that label; without it they have any.
    """
    from playwright.sync_api import expect, sync_playwright

    rng = np.random.default_rng(0)
    found = []
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=browser, args=FLAGS)
        page = chromium.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        status = page.locator("#status")
        expect(status).to_contain_text("Paint over", timeout=60_000)
        box = page.locator("#stage").bounding_box()
        assert box is not None
        # as the page fits an image into its stage
        scale = min((box["width"] - MARGIN) / SHAPE[1], (box["height"] - MARGIN) / SHAPE[0])
        size = scale * np.array(SHAPE[::-1])
        corner = [box["x"], box["y"]] + (np.array([box["width"], box["height"]]) - size) / 2

        def draw(pen: int, points: np.ndarray) -> None:
            page.locator(f"[name=pen][value='{pen}']").check(force=True)
            places = corner + points * size
            page.mouse.move(*places[0])
            page.mouse.down()
            for place in places[1:]:
                page.wait_for_timeout(PACE)
                page.mouse.move(*place)
            page.mouse.up()

        def line(start: tuple[float, float], end: tuple[float, float]) -> np.ndarray:
            return np.linspace(start, end, MOVES + 1)

        draw(1, line((0.42, 0.45), (0.6, 0.45)))
        draw(2, line((0.1, 0.05), (0.9, 0.07)))
        draw(2, line((0.1, 0.95), (0.9, 0.93)))
        expect(status).to_contain_text(re.compile("yellow|No region"), timeout=60_000)
        for number in range(strokes):
            page.evaluate("performance.clearMeasures()")
            pen = 1 + number % 2
            while True:
                start = rng.uniform(0.1, 0.9, 2)
                points = line(start, start + rng.uniform(-0.06, 0.06, 2))
                x, y = (points * SHAPE[::-1]).astype(int).T
                if truth is None or (truth[y, x] == (pen == 1)).all():
                    break
            draw(pen, points)
            page.wait_for_timeout(REST)
            times: list[float] = []
            while len(times) < MOVES + 1:
                page.wait_for_timeout(20)
                entries = f"performance.getEntriesByName({NAME!r}).map((entry) => entry.duration)"
                times = page.evaluate(entries)
            server = float(page.locator("#took").inner_text().split()[0])
            found.append((times[0], times[-1], server))
        chromium.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strokes", type=int, default=STROKES)
    parser.add_argument("--browser", default=shutil.which("chromium") or "/usr/bin/chromium")
    options = parser.parse_args()
    medians: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.png"
        scene = ls.make_scenes(1, SHAPE, seed=4)
        Image.fromarray(scene.images[0]).save(path)
        for title, truth in (("as they should be", scene.masks[0]), ("any label", None)):
            with serving(path) as address:
                found = measure(address, options.browser, options.strokes, truth)
            medians.append(show_times(f"{len(found)} strokes at 640x480, {title}", found))
    if hasattr(os, "getloadavg"):
        print(f"Load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores: 1 to 2 if quiet.")
    print(f"The cut follows a stroke in {medians[0]:.0f} ms (median), wanted below {LIMIT:g} ms.")
    return int(medians[0] >= LIMIT)


def show_times(title: str, found: list[tuple[float, float, float]]) -> float:
    """Print a table; return the median time to the last move."""
    rows = []
    names = ["press to pixels", "last move to pixels", "the cut after a stroke, on the server"]
    for name, times in zip(names, zip(*found, strict=True), strict=True):
        low, middle, high = np.percentile(times, [25, 50, 75])
        rows.append([name, f"{middle:.0f}", f"{low:.0f} to {high:.0f}", f"{max(times):.0f}"])
    head = ["what", "median (ms)", "quartiles", "slowest"]
    show([Table(title, head, rows)])
    return statistics.median(last for _, last, _ in found)


if __name__ == "__main__":
    sys.exit(main())
