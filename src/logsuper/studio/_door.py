"""Who may come in: the browser of this user, on this machine, with the token."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

__all__ = ["Door"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_NAMES = ("127.0.0.1", "localhost")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


class Door:
    """Lets requests of the page itself through, and answers all others with one line.

    A page of another site must not talk to this server: its requests have another origin. By DNS
    rebinding its own name may stand for this machine: then the host differs. Other users of this
    machine have no token, unless they see the command line of the browser that was started with it.

    Parameters
    ----------
    app : ASGI application
        Sees paths without the token.
    token : str
        The first part of every path.
    port : int
    """

    def __init__(self, app: App, token: str, port: int) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {f"{name}:{port}" for name in _NAMES}
        if port == 80:  # browsers leave it out
            self._hosts |= set(_NAMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = _single(scope["headers"])
        answer = self._send_with_headers(send, headers or {})
        refusal = self._judge(scope, headers)
        if refusal is None:
            inner = dict(scope)
            inner["path"] = f"/{_split(scope)[1]}"
            inner.pop("raw_path", None)
            await self._app(inner, receive, answer)
        else:
            await _refuse(scope, receive, answer, *refusal)

    def _judge(self, scope: Scope, headers: Mapping[str, str] | None) -> tuple[int, str] | None:
        """Return status and line of a refusal, None if all is well."""
        if headers is None:
            return 400, "a header is given twice"
        if headers.get("host") not in self._hosts:
            return 421, "this server answers to 127.0.0.1 and localhost only"
        origin = headers.get("origin")
        changes = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        own = f"http://{headers['host']}"
        if origin != own and (changes or origin is not None):
            return 403, "requests of other sites are not answered"
        token, path = _split(scope)
        site = headers.get("sec-fetch-site", "same-origin")
        visit = headers.get("sec-fetch-mode") == "navigate" and not path
        if site not in ("same-origin", "none") and not visit:
            return 403, "requests of other sites are not answered"
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            return (
                403,
                "the token is missing or wrong: use the address that logsuper studio printed",
            )
        return None

    def _send_with_headers(self, send: Send, headers: Mapping[str, str]) -> Send:
        host = headers.get("host", "")
        policy = _POLICY.format(host=host if host in self._hosts else "127.0.0.1")
        extra = {**_HEADERS, "content-security-policy": policy}

        async def answer(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                own = [(name.encode(), value.encode()) for name, value in extra.items()]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        return answer


def _split(scope: Scope) -> tuple[str, str]:
    """Return the token in a path, and the rest of it."""
    token, _, path = scope["path"].removeprefix("/").partition("/")
    return token, path


def _single(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """Return the headers; None if one that matters is given twice."""
    found: dict[str, str] = {}
    for name, value in headers:
        key = name.decode("latin-1").lower()
        if key in found and key in ("host", "origin", "sec-fetch-site", "sec-fetch-mode"):
            return None
        found[key] = value.decode("latin-1")
    return found


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, line: str) -> None:
    kind = "http.response"
    if scope["type"] == "websocket":
        await receive()  # the request to connect
        kind = "websocket.http.response"
        if kind not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": line})
            return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": f"{line}\n".encode()})
