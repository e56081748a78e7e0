"""The server: on this machine only, until Ctrl-C."""

from __future__ import annotations

import contextlib
import secrets
import socket
import warnings
from collections.abc import Callable
from pathlib import Path

__all__ = ["serve"]

_HOST = "127.0.0.1"
# Seconds that open connections have to end after Ctrl-C.
_GRACE = 1


def serve(
    image: Path | None = None, port: int = 0, ready: Callable[[str], None] | None = None
) -> None:
    """Serve the studio on 127.0.0.1 until Ctrl-C.

    Parameters
    ----------
    image : path, optional
        The image that new tabs show: any file that `logsuper.io.read_image` reads.
    port : int, default 0
        Where to listen; 0 is any free port.
    ready : callable, optional
        Called with the address of the page once the port is taken.

    Raises
    ------
    ImportError
        If starlette, uvicorn or websockets is not installed.
    ValueError, OSError
        If the image cannot be shown, or the port cannot be had.

    Examples
    --------
    >>> from logsuper import studio
    >>> studio.serve(ready=print)  # doctest: +SKIP
    http://127.0.0.1:41795/SOdfJ3.../
    """
    import uvicorn
    import websockets as websockets  # uvicorn would start without it, and refuse connections
    from PIL import Image
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from logsuper.studio._app import make_app
    from logsuper.studio._limits import Limits, Refusal
    from logsuper.studio._sources import open_path

    limits = Limits()
    # such images are refused; filters hold for all threads, and are not changed while they run
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    try:
        first = None if image is None else open_path(image, limits)
    except Refusal as error:
        raise ValueError(error.line) from None
    token = secrets.token_urlsafe(24)
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((_HOST, port))
        door.listen()  # whoever comes before the loop runs waits
        number = door.getsockname()[1]
        config = uvicorn.Config(
            make_app(token, number, first, limits),
            log_level="critical",  # errors are logged by the application
            access_log=False,  # addresses contain the token
            server_header=False,
            proxy_headers=False,
            ws="websockets-sansio",
            ws_max_size=limits.message,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=_GRACE,
            lifespan="on",
        )
        if ready is not None:
            ready(f"http://{_HOST}:{number}/{token}/")
        # waiting threads of BLAS would take the processor from the browser
        with threadpool_limits(1), contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[door])
