"""The page in a browser: a server on this machine that only a page it served may ask."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.extras import install
from hardmax.answers.answer import Answer
from hardmax.playground import page, protocol
from hardmax.playground.links import state_hash
from hardmax.playground.workers import SECONDS, Workers

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")
CONNECTIONS = 400
WAITING = 64  # questions at a time, of all pages
READING = 10.0  # seconds for a message to arrive
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, eq=False, repr=False)
class Serving(Answer):
    """Where the playground is to be found, as `hardmax play` says it.

    >>> import hardmax as hm
    >>> hm.playground.Serving("http://127.0.0.1:8000/?t=secret", "127.0.0.1", 8000)
    http://127.0.0.1:8000/?t=secret
    """

    schema: ClassVar[str] = "hardmax.play/1"

    address: str
    host: str
    port: int

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        return {"address": self.address, "host": self.host, "port": self.port}

    def table(self) -> str:
        """One line with the address."""
        return self.address


class Gate:
    """Who may ask: who names this server as host, comes from its own page, and has the token."""

    def __init__(self, host: str, port: int, token: str) -> None:
        names = {LOOPBACK, "localhost", "[::1]"} if host in (LOOPBACK, "localhost", "::1") else set()
        self._hosts = {f"{name}:{port}" for name in {_spelled(host), *names}}
        self._any, self._port, self._token = host in EVERYWHERE, port, token

    def _is_own(self, host: str | None) -> bool:
        """Whether a Host is this server; listening everywhere, any address will do, but no name."""
        if host is None or host in self._hosts or not self._any:
            return host in self._hosts
        name, _, port = host.rpartition(":")
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return name == socket.gethostname() and port == str(self._port)
        return port == str(self._port)

    def refusal(self, request: Request, *, with_token: bool) -> str | None:
        """Why a request is refused; None if it is not."""
        host = request.headers.get("host")
        if not self._is_own(host):
            return "Host must be the address that hardmax play printed; open that one"
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return "Origin must be the playground's own page"
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "the playground answers its own page only"
        given = request.headers.get("x-hardmax-token") or request.query_params.get("t", "")
        if with_token and not hmac.compare_digest(given.encode(), self._token.encode()):
            return "the address must end in the token that hardmax play printed; open that one"
        return None


def _spelled(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def application(gate: Gate, workers: Workers) -> Starlette:
    """The server's few routes; none of them touches a file."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Route

    room = asyncio.Semaphore(WAITING)

    def refuse(reason: str, status: int) -> Response:
        return Response(protocol.refused(reason), status, HEADERS, "application/json")

    def fixed(content: str, kind: str, *, with_token: bool = False) -> Callable[[Request], Any]:
        async def get(request: Request) -> Response:
            reason = gate.refusal(request, with_token=with_token)
            if reason is not None:
                return PlainTextResponse(reason + "\n", 403, HEADERS)
            made = HTMLResponse if kind == "text/html" else Response
            return made(content, headers=HEADERS, media_type=kind)

        return get

    async def ask(request: Request) -> Response:
        reason = gate.refusal(request, with_token=True)
        if reason is not None:
            return refuse(reason, 403)
        if room.locked():
            return refuse("the engine is busy with other questions; ask again in a moment", 503)
        async with room:
            try:
                async with asyncio.timeout(READING):
                    raw = await _body(request)
            except TimeoutError:
                return refuse("a message must arrive within seconds, got a part of one", 408)
            if raw is None:
                limit = f"a message must have at most {protocol.MOST_BYTES:,} bytes, got more; send less"
                return refuse(limit, 413)
            name = request.headers.get("x-hardmax-page", "")[:40]
            answered = await run_in_threadpool(workers.ask, raw, name)
        return Response(answered, 200, HEADERS, "application/json")

    return Starlette(
        routes=[
            Route("/", fixed(page.PAGE, "text/html", with_token=True)),
            Route("/start.js", fixed(page.START, "text/javascript")),
            Route("/front.js", fixed(page.script(), "text/javascript")),
            Route("/style.css", fixed(page.style(), "text/css")),
            Route("/ask", ask, methods=["POST"]),
        ]
    )


async def _body(request: Request) -> bytes | None:
    """What was sent; None as soon as it is too much."""
    told = request.headers.get("content-length", "0")
    if told.isdigit() and int(told) > protocol.MOST_BYTES:
        return None
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > protocol.MOST_BYTES:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def serve(
    what: Any = None,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    seconds: float = SECONDS,
    browser: bool = True,
    ready: Callable[[Serving], Any] = print,
) -> None:
    """Serve the playground until an interrupt, as `hardmax play` does.

    Args:
        what: what the page opens with, as for `hm.play`.
        host: the address to listen on; this machine only by default.
        port: the port, a free one by default.
        seconds: how long one question may take.
        browser: open the page.
        ready: called with the address, once the page can be opened.

    >>> import hardmax as hm
    >>> hm.playground.serve(port=-1)
    Traceback (most recent call last):
    ValueError: port must be a whole number from 0 to 65535, got -1
    """
    if not isinstance(port, int) or not 0 <= port <= 65535:
        raise ValueError(f"port must be a whole number from 0 to 65535, got {port!r}")
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ModuleNotFoundError as error:
        raise ValueError(f"the playground needs {error.name}; {install('play')}") from None
    opening = state_hash(what)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # a socket that says TCP gets TCP_NODELAY from asyncio; without it every answer waits 40 ms for an ACK
    with (
        socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening,
        Workers(seconds=seconds) as workers,
    ):
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            reason = error.strerror or str(error)
            raise ValueError(
                f"host and port must be free to listen on, got {host}:{port} ({reason}); choose others"
            ) from None
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(24)
        shown = _spelled(LOOPBACK if host in EVERYWHERE else host)
        address = f"http://{shown}:{port}/?t={token}{opening}"
        gate = Gate(host, port, token)
        config = uvicorn.Config(
            application(gate, workers),
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=20,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        listening.listen(128)
        ready(Serving(address, host, port))
        if browser:
            import webbrowser

            webbrowser.open(address)
        uvicorn.Server(config).run(sockets=[listening])
