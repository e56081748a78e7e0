"""How fast the cut follows the pen in a browser: `python -m benchmarks.studio`.

A drawn scene of 640x480 pixels, `logsuper studio` and chromium, driven by playwright. A stroke is a
press, eight moves of the pointer at the pace of a hand, and a release. What is measured is the time
from an event of the pointer, by its own time stamp, until the cut that includes it has been drawn
on the canvas, for the press and for the last move of each stroke. The exit code is 1 if the median
over strokes of the latter is 100 ms or more.
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


def measure(address: str, browser: str, strokes: int) -> list[tuple[float, float, float]]:
    """Return milliseconds of each stroke: to the press, to the last move, and of the server."""
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

        def draw(pen: int, points: np.ndarray) -> None:
            page.locator(f"[name=pen][value='{pen}']").check(force=True)
            places = np.array([box["x"], box["y"]]) + points * [box["width"], box["height"]]
            page.mouse.move(*places[0])
            page.mouse.down()
            for place in places[1:]:
                page.wait_for_timeout(PACE)
                page.mouse.move(*place)
            page.mouse.up()

        def line(start: tuple[float, float], end: tuple[float, float]) -> np.ndarray:
            return np.linspace(start, end, MOVES + 1)

        draw(1, line((0.42, 0.45), (0.6, 0.45)))
        draw(2, line((0.15, 0.12), (0.85, 0.14)))
        draw(2, line((0.15, 0.9), (0.85, 0.92)))
        expect(status).to_contain_text(re.compile("yellow|No region"), timeout=60_000)
        for number in range(strokes):
            page.evaluate("performance.clearMeasures()")
            start = rng.uniform((0.15, 0.1), (0.8, 0.9))
            draw(1 + number % 2, line(start, start + rng.uniform(-0.06, 0.06, 2)))
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
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.png"
        Image.fromarray(ls.make_scenes(1, SHAPE, seed=4).images[0]).save(path)
        with serving(path) as address:
            found = measure(address, options.browser, options.strokes)
    rows = []
    names = ["press to pixels", "last move to pixels", "the cut after a stroke, on the server"]
    for name, times in zip(names, zip(*found, strict=True), strict=True):
        low, middle, high = np.percentile(times, [25, 50, 75])
        rows.append([name, f"{middle:.0f}", f"{low:.0f} to {high:.0f}", f"{max(times):.0f}"])
    head = ["what", "median (ms)", "quartiles", "slowest"]
    show([Table(f"{len(found)} strokes at 640x480, in chromium", head, rows)])
    if hasattr(os, "getloadavg"):
        print(f"Load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores: 1 to 2 if quiet.")
    median = statistics.median(last for _, last, _ in found)
    print(f"The cut follows a stroke in {median:.0f} ms (median), wanted below {LIMIT:g} ms.")
    return int(median >= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
