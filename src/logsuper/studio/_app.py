"""The application: the page, uploads, exports, and a connection per tab."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from logsuper.studio._door import App, Door
from logsuper.studio._limits import Limits, Refusal
from logsuper.studio._sources import SHIPPED, Source, decode, encode_png, open_shipped
from logsuper.studio._tab import EXPORTS, Tab

__all__ = ["make_app"]

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NAME = 120  # characters of a file's name
_FULL = 4000  # a code of closed connections, of the range for applications


def make_app(
    token: str, port: int, first: Source | None = None, limits: Limits | None = None
) -> App:
    """Return the application.

    Parameters
    ----------
    token : str
        The first part of every path.
    port : int
        Where it listens.
    first : Source, optional
        The image that new tabs show.
    limits : Limits, optional
    """
    return Door(_Studio(first, limits or Limits()).app, token, port)


class _Studio:
    """What all tabs share."""

    def __init__(self, first: Source | None, limits: Limits) -> None:
        self._first, self._limits = first, limits
        self._tabs: dict[str, Tab] = {}
        self._pool = ThreadPoolExecutor((os.cpu_count() or 1) + limits.tabs, "studio")
        self._page = _read_page()
        self.app = Starlette(
            routes=[
                Route("/", self._serve_page),
                Route("/page/{name}", self._serve_page),
                Route("/shipped/{name}.png", self._serve_shipped),
                Route("/image/{tab}", self._take_image, methods=["POST"]),
                Route("/export/{tab}/{kind}", self._export),
                WebSocketRoute("/tab", self._talk),
            ],
            exception_handlers={
                Refusal: _explain,
                HTTPException: _explain_status,
                Exception: _confess,
            },
            lifespan=self._live,
        )

    @contextlib.asynccontextmanager
    async def _live(self, app: Starlette) -> AsyncIterator[None]:
        yield
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _serve_page(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in self._page:
            raise Refusal("there is no such file", 404)
        return Response(self._page[name], media_type=_TYPES[os.path.splitext(name)[1]])

    async def _serve_shipped(self, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        data = await loop.run_in_executor(self._pool, _thumbnail, request.path_params["name"])
        return Response(data, media_type="image/png")

    async def _take_image(self, request: Request) -> Response:
        tab = self._find(request)
        size = request.headers.get("content-length", "")
        if not size.isascii() or not size.isdigit():
            raise Refusal("say how long the file is: Content-Length", 411)
        data = bytearray()
        if int(size[:20]) <= self._limits.upload:
            async for part in request.stream():
                data += part
                if len(data) > self._limits.upload:
                    break
        if int(size[:20]) > self._limits.upload or len(data) > self._limits.upload:
            most = self._limits.upload / (1 << 20)
            raise Refusal(f"the file is larger than {most:g} MiB; shrink it", 413)
        name = unquote(request.headers.get("x-name", "image"), errors="replace")
        name = "".join(c for c in name if c.isprintable()).replace("\\", "/").split("/")[-1]
        source = await tab.compute(decode, bytes(data), name[:_NAME] or "image", self._limits)
        await tab.show(source)
        return Response(status_code=204)

    async def _export(self, request: Request) -> Response:
        tab, kind = self._find(request), request.path_params["kind"]
        if kind not in EXPORTS:
            raise Refusal(f"there is no such export; there are {', '.join(EXPORTS)}", 404)
        data = await tab.export(kind)
        headers = {"content-disposition": f'attachment; filename="{kind}"'}
        return Response(data, media_type=EXPORTS[kind], headers=headers)

    async def _talk(self, socket: WebSocket) -> None:
        await socket.accept()
        if len(self._tabs) >= self._limits.tabs:
            reason = f"{self._limits.tabs} tabs are open already; close one and reload"
            await socket.close(_FULL, reason)
            return
        tab = Tab(socket, self._pool, self._limits)
        self._tabs[tab.id] = tab
        try:
            await tab.run(self._first)
        finally:
            del self._tabs[tab.id]

    def _find(self, request: Request) -> Tab:
        tab = self._tabs.get(request.path_params["tab"])
        if tab is None:
            raise Refusal("this tab is not open any more; reload it", 404)
        return tab


def _read_page() -> dict[str, bytes]:
    """Return the files of the page, read once; no path of a request ever reaches a disk."""
    folder = resources.files("logsuper.studio") / "page"
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if os.path.splitext(file.name)[1] in _TYPES
    }


@functools.lru_cache(maxsize=len(SHIPPED))
def _thumbnail(name: str) -> bytes:
    return encode_png(open_shipped(name).shown())


async def _explain(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return PlainTextResponse(f"{error.line}\n", error.status)


async def _explain_status(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    line = {404: "there is no such page", 405: "not in this way"}.get(error.status_code)
    return PlainTextResponse(f"{line or error.detail}\n", error.status_code)


async def _confess(request: Request, error: Exception) -> Response:
    logging.getLogger(__name__).error("studio: unexpected error", exc_info=error)
    return PlainTextResponse(f"unexpected {type(error).__name__}; the terminal has more\n", 500)
