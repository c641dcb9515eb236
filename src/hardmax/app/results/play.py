"""`play`: the playground in a browser, served until an interrupt."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hardmax._lib.arguments import check_arguments
from hardmax.app.results.session import session

if TYPE_CHECKING:
    from hardmax._lib.result import Result
    from hardmax.app.playground.server import Serving


@check_arguments
def play_in_browser(
    what: str | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    timeout: float = 20.0,
    export: str | os.PathLike[str] | None = None,
    browser: bool = True,
) -> Result | None:
    """Open the playground: drag tokens, watch attention choose.

    Args:
        what: A problem (.json, .npz, .csv), sentences (.txt), or a link to a state of the page.
        host: Address to listen on. By default only this machine can connect.
        port: Port to listen on; by default a free one.
        timeout: Stop a computation of the page after this many seconds.
        export: Write the page as one file and exit.
        browser: Open the page in a browser.
    """
    from hardmax._lib import expect
    from hardmax.app.playground.server import serve

    if export is not None:
        from hardmax.app.playground.export import export_page

        return export_page(export, what)
    expect.positive("timeout", timeout)

    def ready(serving: Serving) -> None:
        session().show(serving)
        if serving.kept:
            session().say(f"{what} is too large for an address; the page gets it from this server")

    try:
        serve(what, host=host, port=port, seconds=timeout, browser=browser, ready=ready)
        return None
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the playground has ended; the same command opens it again") from None
