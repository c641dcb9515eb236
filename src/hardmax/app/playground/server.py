"""The page in a browser: a server on this machine that only a page it served may ask."""

from __future__ import annotations

import asyncio
import hmac
import html
import ipaddress
import json
import re
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.extras import install
from hardmax._lib.result import Result
from hardmax.app.playground import page, protocol
from hardmax.app.playground.links import opening
from hardmax.app.playground.workers import SHORT, Workers

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")
CONNECTIONS = 400
WAITING = 64  # questions at a time, of all pages
READING = 10.0  # seconds for a message to arrive
LINKS = '<link rel="stylesheet" href="style.css">', '<script type="module" src="start.js"></script>'
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
class Serving(Result):
    """The address of the playground, as `hardmax play` prints it.

    >>> import hardmax as hm
    >>> hm.playground.Serving("http://127.0.0.1:8000/?t=secret", "127.0.0.1", 8000)
    <Serving: http://127.0.0.1:8000/?t=secret>
    """

    schema: ClassVar[str] = "hardmax.play/1"
    json_fields: ClassVar = ("address", "host", "port")

    address: str
    host: str
    port: int
    kept: bool = False  # whether the server keeps what the page opens with, as too long for an address

    def table(self) -> str:
        """Return one line with the address."""
        return self.address


class Gate:
    """The check of requests: they name this server as host, come from its own page, and have the token."""

    def __init__(self, host: str, port: int, token: str) -> None:
        names = {LOOPBACK, "localhost", "[::1]"} if host in (LOOPBACK, "localhost", "::1") else set()
        self._names, self._any = {_spelled(host), *names}, host in EVERYWHERE
        self._port, self._token = str(port), token

    def _is_this(self, host: str) -> bool:
        """Return whether a Host is this server; one that listens everywhere accepts any address, no name."""
        name, _, port = host.rpartition(":")
        is_other = self._any and (_is_address(name.strip("[]")) or name == socket.gethostname())
        return port == self._port and (name in self._names or is_other)

    def refusal(self, request: Request, *, with_token: bool, from_outside: bool = False) -> str | None:
        """Return why a request is refused, or None. A page may be opened ``from_outside``: by a file."""
        host = request.headers.get("host") or ""
        if not self._is_this(host):
            return "Host must be the address that hardmax play printed; open that one"
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return "Origin must be the playground's own page"
        is_opened = from_outside and request.headers.get("sec-fetch-mode") == "navigate"
        site = request.headers.get("sec-fetch-site", "same-origin")
        if site not in ("same-origin", "none") and not is_opened:
            return "the playground answers its own page only"
        token = request.headers.get("x-hardmax-token") or request.query_params.get("t", "")
        if with_token and not hmac.compare_digest(token.encode(), self._token.encode()):
            return "the address must end in the token that hardmax play printed; open that one"
        return None


def _spelled(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def application(gate: Gate, workers: Workers, state: dict[str, Any] | None = None) -> Starlette:
    """Return the server; no route touches a file. ``state`` is what is too long for the page's address."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    room = asyncio.Semaphore(WAITING)

    def refuse(reason: str, status: int) -> Response:
        return Response(protocol.pack_refusal(reason), status, media_type="application/json")

    def fixed(content: str, kind: str, *, with_token: bool = False) -> Callable[[Request], Any]:
        async def get(request: Request) -> Response:
            is_page = kind == "text/html"
            reason = gate.refusal(request, with_token=with_token, from_outside=is_page)
            if reason is not None:
                return PlainTextResponse(reason + "\n", 403)
            return Response(content, media_type=kind)

        return get

    async def ask(request: Request) -> Response:
        reason = gate.refusal(request, with_token=True)
        if reason is not None:
            return refuse(reason, 403)
        if room.locked():
            return refuse(workers.crowded(), 503)
        async with room:
            try:
                async with asyncio.timeout(READING):
                    raw = await _body(request)
            except ClientDisconnect:
                return refuse("the message was not sent to its end", 400)  # nobody hears it
            except TimeoutError:
                return refuse("a message must arrive within seconds, got a part of one", 408)
            if raw is None:
                limit = f"a message must have at most {protocol.MOST_BYTES:,} bytes, got more; send less"
                return refuse(limit, 413)
            name = request.headers.get("x-hardmax-page", "")[:40]
            # threads of the pool may all be waiting for engines
            reply = await asyncio.to_thread(workers.own, raw) if len(raw) <= SHORT else None
            if reply is None:
                reply = await run_in_threadpool(workers.ask, raw, name)
        return Response(reply, 200, media_type="application/json")

    return Starlette(
        routes=[
            Route("/", fixed(page.document(*LINKS), "text/html", with_token=True)),
            Route("/start.js", fixed(page.template("start.js"), "text/javascript")),
            Route("/front.js", fixed(page.script(), "text/javascript")),
            Route("/style.css", fixed(page.style(), "text/css")),
            Route("/opening", fixed(json.dumps(state), "application/json", with_token=True)),
            Route("/ask", ask, methods=["POST"]),
        ]
    )


async def _body(request: Request) -> bytes | None:
    """Return what was sent; None as soon as it is too much."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > protocol.MOST_BYTES:
        return None
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > protocol.MOST_BYTES:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def run_server(
    what: Any, host: str, port: int, seconds: float, browser: bool, ready: Callable[[Serving], object]
) -> None:
    """Serve the page until an interrupt; one question may take ``seconds``."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port must be a whole number from 0 to 65535, got {port!r}")
    label = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    is_name = len(host) <= 253 and re.fullmatch(rf"{label}(\.{label})*\.?", host)
    if not is_name and not _is_address(host):  # before the system's resolver gets it
        raise ValueError(f"host must be an IP address or a host name, got {host[:60]!r}")
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ModuleNotFoundError as error:
        raise ImportError(f"the playground needs {error.name}: {install('play')}") from None
    from hardmax.app.playground.connections import Connection

    end, state = opening(what)
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
            raise ValueError(f"cannot listen on host {host}, port {port}: {reason}; choose others") from None
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(24)
        shown = _spelled(LOOPBACK if host in EVERYWHERE else host)
        address = f"http://{shown}:{port}/?t={token}{end}"
        gate = Gate(host, port, token)
        config = uvicorn.Config(
            application(gate, workers, state),
            http=Connection,
            headers=list(HEADERS.items()),  # of every answer, also where there is nothing or no such method
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
        ready(Serving(address, host, port, state is not None))
        with _browsing(address, browser):
            uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def _browsing(address: str, wanted: bool) -> Iterator[None]:
    """Open the page by a private file that leads to it: everyone can read the arguments of a process."""
    if not wanted:
        yield
        return
    import webbrowser

    target = html.escape(address)
    content = (
        f'<!doctype html>\n<meta charset="utf-8">\n<title>hardmax playground</title>\n'
        f'<meta http-equiv="refresh" content="0; url={target}">\n'
        f'<p><a href="{target}">Open the playground</a></p>\n'
    )
    with tempfile.TemporaryDirectory(prefix="hardmax-play-") as folder:  # which only its owner may read
        file = Path(folder, "open.html")
        file.touch(0o600)
        file.write_text(content, encoding="utf-8")
        webbrowser.open(file.as_uri())
        yield
