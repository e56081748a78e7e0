"""One tab of the browser: its image, its work, and the messages to and fro."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.websockets import WebSocket, WebSocketDisconnect

from logsuper.bounds import Bracket, Marginals
from logsuper.estimators import Segmentation
from logsuper.studio._cleaning import Cleaning, Weights, describe
from logsuper.studio._desk import Check, Desk
from logsuper.studio._limits import Limits, Refusal
from logsuper.studio._segmenting import Refined, Segmenting
from logsuper.studio._sources import SHIPPED, Source, open_shipped

__all__ = ["EXPORTS", "Tab", "frame"]

EXPORTS = {
    "mask.png": "image/png",
    "probability.png": "image/png",
    "scribbles.png": "image/png",
    "model.npz": "application/octet-stream",
    "code.py": "text/x-python; charset=utf-8",
}
"""The files that a tab can export, and their types."""

_MODES = ("clean", "segment")
# Ranges of the sliders.
_RATE, _WEIGHT, _BIAS = (0.001, 0.45), (0.0, 20.0), (-10.0, 10.0)
# The first number of a binary message, and how many precede the runs: kind, version, last.
_PAINT, _HEAD = 1, 3
# Codes of closed connections, of the range for applications.
_IDLE = 4001


class Tab:
    """A tab; its parts live as long as its connection.

    Parameters
    ----------
    socket : WebSocket
    pool : Executor
    limits : Limits
    """

    def __init__(self, socket: WebSocket, pool: Executor, limits: Limits) -> None:
        self.id = secrets.token_urlsafe(12)
        self._socket, self._limits = socket, limits
        self._desk = Desk(pool, self._fail)
        self._pool = pool
        self._mode = "segment"
        self._segmenting: Segmenting | None = None
        self._cleaning: Cleaning | None = None
        self._samples: int | None = None

    # ---------------------------------------------------------------------------------- the door

    async def run(self, first: Source | None) -> None:
        """Talk to the page until it goes away."""
        await self._say({"is": "hello", "tab": self.id, "shipped": list(SHIPPED)})
        worker = asyncio.create_task(self._desk.run())
        try:
            if first is not None:
                await self.show(first)
            while True:
                try:
                    message = await asyncio.wait_for(self._socket.receive(), self._limits.idle)
                except TimeoutError:
                    await self._socket.close(_IDLE, "this tab has rested too long; reload it")
                    return
                if message["type"] == "websocket.disconnect":
                    return
                await self._hear(message)
        finally:
            self._desk.drop()
            worker.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await worker

    async def show(self, source: Source) -> None:
        """Work on another image: clean masks, segment pictures, and grey ones as before."""
        self._desk.drop()
        self._segmenting, self._cleaning, self._samples = Segmenting(source), None, None
        if source.colored or source.is_mask:
            self._mode = "segment" if source.colored else "clean"
        height, width = source.shape
        about = {"name": source.name, "height": height, "width": width, "step": source.step}
        about |= {"full": list(source.full), "colored": source.colored, "mode": self._mode}
        shown = source.shown()
        await self._send({"is": "image", **about}, shown)
        await self._enter()

    async def export(self, kind: str) -> bytes:
        """Return a file of the present state."""
        work = self._work()
        return bytes(await self.compute(self._desk.alone, lambda check: work.export(kind, check)))

    async def compute(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    # ------------------------------------------------------------------------------------ hearing

    async def _hear(self, message: Mapping[str, Any]) -> None:
        try:
            data = message.get("bytes")
            if data is not None:
                self._paint(data)
                return
            wish = _parse(message.get("text"))
            act = getattr(self, f"_do_{wish['do']}", None) if wish["do"].isidentifier() else None
            if act is None:
                raise Refusal(f"there is nothing to do for {wish['do'][:40]!r}")
            await act(wish)
        except (Refusal, ValueError) as error:
            await self._fail(" ".join(str(error).split())[:500])

    def _paint(self, data: bytes) -> None:
        if len(data) % 4 or len(data) < 4 * _HEAD:
            raise Refusal("a binary message holds 32-bit numbers: 1, version, last, and runs")
        numbers = np.frombuffer(data, dtype="<u4")
        if numbers[0] != _PAINT:
            raise Refusal(f"binary messages of kind {numbers[0]} are not known")
        work = self._segmenting
        if work is None:
            raise Refusal("open an image first")
        work.paint(numbers[_HEAD:], int(numbers[1]))
        last = bool(numbers[2])

        def cut(check: Check) -> tuple[Segmentation | None, int]:
            version = work.version
            return work.cut(check, quick=True), version

        async def done(found: tuple[Segmentation | None, int]) -> None:
            await self._show_cut(work, *found)
            if last and found[0] is not None:
                self._settle(work)

        self._desk.put(Desk.CUT, cut, done)

    async def _do_open(self, wish: Mapping[str, Any]) -> None:
        name = wish.get("name")
        if not isinstance(name, str):
            raise Refusal("open: name must be that of a shipped image")
        await self.show(await self.compute(open_shipped, name))

    async def _do_mode(self, wish: Mapping[str, Any]) -> None:
        mode = wish.get("mode")
        if mode not in _MODES:
            raise Refusal("mode must be clean or segment")
        if mode == "clean" and self._segmenting is not None and self._cleaning is None:
            Cleaning(self._segmenting.source)  # says why if that is impossible
        self._mode = mode
        if self._segmenting is not None:
            self._desk.drop()
            await self._enter()

    async def _do_noise(self, wish: Mapping[str, Any]) -> None:
        work = self._clean_work()
        rate = _number(wish, "rate", *_RATE)
        work.set_noise(rate)
        await self._show_observed(work)
        origin = work.origin if work.origin != "hand" else None
        if origin is None:
            await self._infer(work)
        else:
            await self._learn(work, origin, rate)

    async def _do_learn(self, wish: Mapping[str, Any]) -> None:
        origin = wish.get("from")
        if origin not in ("silhouettes", "image"):
            raise Refusal("learn: from must be silhouettes or image")
        await self._learn(self._clean_work(), origin, None)

    async def _do_weights(self, wish: Mapping[str, Any]) -> None:
        work = self._clean_work()
        horizontal, vertical = (_number(wish, n, *_WEIGHT) for n in ("horizontal", "vertical"))
        work.set_weights(Weights(horizontal, vertical, _number(wish, "bias", *_BIAS)))
        await self._infer(work)

    async def _do_samples(self, wish: Mapping[str, Any]) -> None:
        work = self._clean_work()
        seed = wish.get("seed")
        if seed is not None and (type(seed) is not int or not 0 <= seed < 2**31):
            raise Refusal("samples: seed must be a whole number from 0, or null for none")
        self._samples = seed
        if seed is not None:
            self._sample(work)

    # ------------------------------------------------------------------------------- the stages

    async def _enter(self) -> None:
        """Begin the work of the present mode."""
        work = self._segmenting
        assert work is not None
        if self._mode == "segment":
            await self._say({"is": "busy", "what": "Preparing the image"})

            async def ready(_: Any) -> None:
                await self._show_cut(work, work.found, work.version)
                if work.found is not None:
                    self._refine(work)

            def prepare(check: Check) -> None:
                work.prepare(check)
                work.cut(check)

            self._desk.put(Desk.OPEN, prepare, ready)
            return
        if self._cleaning is None:
            self._cleaning = Cleaning(work.source)
            await self._show_observed(self._cleaning)
            origin = "silhouettes" if work.source.truth is not None else "image"
            await self._learn(self._cleaning, origin, None)
        else:
            await self._show_observed(self._cleaning)
            await self._show_model(self._cleaning)
            await self._infer(self._cleaning)

    async def _learn(self, work: Cleaning, origin: str, rate: float | None) -> None:
        await self._say({"is": "busy", "what": "Learning the weights"})

        def learn(check: Check) -> str | None:
            try:
                work.learn(origin, rate, check)
            except ValueError as error:  # such an image has no weights: keep those there are
                return " ".join(str(error).split())
            return None

        async def done(error: str | None) -> None:
            if error:
                await self._fail(error)
            await self._show_model(work)
            await self._infer(work)

        self._desk.put(Desk.LEARN, learn, done)

    async def _infer(self, work: Cleaning) -> None:
        async def done(found: Marginals) -> None:
            await self._show_marginals(work, found)
            await self._say({"is": "busy", "what": "Certifying"})
            self._desk.put(Desk.REFINE, certify, certified)

        def certify(check: Check) -> tuple[Marginals, Bracket]:
            return work.infer(check), work.bound(check)

        async def certified(found: tuple[Marginals, Bracket]) -> None:
            await self._show_marginals(work, found[0], found[1])
            if self._samples is not None:
                self._sample(work)

        self._desk.put(Desk.CUT, work.quick, done)

    def _sample(self, work: Cleaning) -> None:
        seed = self._samples
        assert seed is not None

        async def done(samples: NDArray[np.uint8]) -> None:
            bits = np.packbits(samples.reshape(len(samples), -1), axis=1)
            await self._send({"is": "samples", "count": len(samples)}, bits)

        self._desk.put(Desk.SAMPLE, lambda check: work.sample(seed, check), done)

    def _settle(self, work: Segmenting) -> None:
        """Cut again after a stroke, with the colours that it adds."""
        version = work.version

        async def done(found: Segmentation | None) -> None:
            await self._show_cut(work, found, version)
            self._refine(work)

        self._desk.put(Desk.SETTLE, work.cut, done)

    def _refine(self, work: Segmenting) -> None:
        version = work.version

        async def done(found: Refined | None) -> None:
            if found is None:
                return
            about = {"centers": found.centers, "wrong": found.wrong, "version": version}
            p = np.round(65535.0 * found.probability).astype("<u2")
            await self._send({"is": "refined", **about}, p, found.regions)

        self._desk.put(Desk.REFINE, work.refine, done)

    # ------------------------------------------------------------------------------------ saying

    async def _show_cut(self, work: Segmenting, found: Segmentation | None, version: int) -> None:
        if found is None:
            await self._say({"is": "wanted", "what": work.missing, "version": version})
            return
        share = float(found.mask.mean())
        milliseconds = 1000.0 * found.seconds.get("mask", 0.0)
        about = {"version": version, "object": share, "milliseconds": milliseconds}
        await self._send({"is": "mask", **about}, np.packbits(found.mask))

    async def _show_observed(self, work: Cleaning) -> None:
        shown = np.round(255.0 * work.observed).astype(np.uint8)
        about = {"binary": work.binary, "rate": work.rate, "flips": work.source.truth is not None}
        await self._send({"is": "observed", **about}, shown)

    async def _show_model(self, work: Cleaning) -> None:
        weights = work.weights
        about: dict[str, Any] = {"horizontal": weights.horizontal, "vertical": weights.vertical}
        about |= {"bias": weights.bias, "rate": work.rate, "origin": work.origin}
        about |= {"noise": describe(work.channel), "notes": work.notes}
        await self._say({"is": "model", **about})

    async def _show_marginals(
        self, work: Cleaning, found: Marginals, bracket: Bracket | None = None
    ) -> None:
        assert found.lower is not None and found.upper is not None
        mask = found.values > 0.5
        wrong, truth = work.doubt(found), work.source.truth
        about: dict[str, Any] = {
            "object": float(mask.mean()),
            "most": float(wrong.mean()),
            "width": float((found.upper - found.lower).max()),
            "final": bracket is not None,
        }
        if bracket is not None:
            about |= {"lower": bracket.lower, "upper": bracket.upper, "by": bracket.above.method}
        if truth is not None:
            about |= {"before": float((work.observed != truth).mean())}
            about |= {"after": float((mask != truth).mean())}
        # bounds stay bounds when they are rounded
        low = np.floor(65535.0 * found.lower).astype("<u2")
        high = np.ceil(65535.0 * found.upper).astype("<u2")
        p = np.round(65535.0 * found.values).astype("<u2")
        await self._send({"is": "marginals", **about}, p, low, high, np.packbits(mask))

    async def _fail(self, line: str) -> None:
        await self._say({"is": "error", "line": line})

    async def _say(self, message: Mapping[str, Any]) -> None:
        with self._unless_gone():
            await self._socket.send_text(json.dumps(message))

    async def _send(self, header: Mapping[str, Any], *arrays: NDArray[Any]) -> None:
        with self._unless_gone():
            await self._socket.send_bytes(frame(header, *arrays))

    @contextlib.contextmanager
    def _unless_gone(self) -> Iterator[None]:
        """Stop all work if the page is gone."""
        try:
            yield
        except (WebSocketDisconnect, RuntimeError, OSError):
            self._desk.drop()

    def _work(self) -> Segmenting | Cleaning:
        work = self._segmenting if self._mode == "segment" else self._cleaning
        if work is None:
            raise Refusal("open an image first", 409)
        return work

    def _clean_work(self) -> Cleaning:
        work = self._work()
        if not isinstance(work, Cleaning):
            raise Refusal("this belongs to the mode clean", 409)
        return work


def frame(header: Mapping[str, Any], *arrays: NDArray[Any]) -> bytes:
    """Return a binary message: the length of its header, the header as JSON, the arrays."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 4)  # arrays of 16 bits begin at even places
    parts = [np.ascontiguousarray(array).tobytes() for array in arrays]
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])


def _parse(text: Any) -> dict[str, Any]:
    try:
        wish = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise Refusal("a message is one JSON object; this is not JSON") from None
    if not isinstance(wish, dict) or not isinstance(wish.get("do"), str):
        raise Refusal('a message is one JSON object with the text "do"')
    return wish


def _number(wish: Mapping[str, Any], name: str, low: float, high: float) -> float:
    value: Any = wish.get(name)
    if type(value) not in (int, float) or not low <= value <= high:  # NaN is in no range
        raise Refusal(f"{name} must be a number from {low:g} to {high:g}")
    return float(value)
