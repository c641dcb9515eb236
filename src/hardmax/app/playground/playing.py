"""The playground in a notebook cell (`play`) and in a browser (`serve`, the command `hardmax play`)."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any

from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install
from hardmax.app.results.session import session

if TYPE_CHECKING:
    from hardmax._lib.result import Result
    from hardmax.app.playground.server import Serving
    from hardmax.app.playground.widget import Playground


@check_arguments
def play(problem: Any = None) -> Playground:
    """Show the playground in a notebook cell: drag tokens, watch attention choose.

    ``problem`` is a planar `Problem` or a file of one, a list of sentences, or a link that the page gave;
    without it the guided tour begins. It needs the extra ``play``; outside notebooks the command
    `hardmax play` opens the same page in a browser.

    >>> import hardmax as hm
    >>> widget = hm.play(hm.data.example("B-FIG-8"))
    >>> widget.state["problem"]["scores"]
    [[1.0, 0.0], [1.0, 0.0]]
    """
    try:
        from hardmax.app.playground.widget import Playground
    except ModuleNotFoundError as error:
        if error.name not in ("anywidget", "traitlets", "ipywidgets"):
            raise
        raise ImportError(f"hm.play needs {error.name}: {install('play')}") from None
    return Playground(problem)


@check_arguments
def serve(
    what: Any = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    timeout: float = 20.0,
    export: str | PathLike[str] | None = None,
    browser: bool = True,
    ready: Callable[[Serving], object] | None = None,
) -> Result | None:
    """Open the playground: drag tokens, watch attention choose.

    It is served until an interrupt.

    Args:
        what: A problem (.json, .npz, .csv), sentences (.txt), or a link to a state of the page. In Python
            also a planar `Problem` or a list of sentences.
        host: Address to listen on. By default only this machine can connect.
        port: Port to listen on; by default a free one.
        timeout: Stop a computation of the page after this many seconds.
        export: Write the page as one file and exit.
        browser: Open the page in a browser.
        ready: Called with the address once the page can be opened; by default it is printed.

    Raises:
        ImportError: If the extra `play` is not installed.

    >>> import hardmax as hm
    >>> hm.playground.serve(port=-1)
    Traceback (most recent call last):
    ValueError: port must be a whole number from 0 to 65535, got -1
    """
    from hardmax.app.playground.export import export_page
    from hardmax.app.playground.server import run_server

    if export is not None:
        return export_page(export, what)
    if not timeout > 0.0:
        raise ValueError(f"timeout must be a positive number, got {timeout}")
    current = session()

    def show(serving: Serving) -> None:
        if ready is not None or not current.is_command:
            (ready or print)(serving)
        current.show(serving)
        if serving.kept:
            current.say(f"{what} is too large for an address; the page gets it from this server")

    try:
        run_server(what, host, port, timeout, browser, show)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the playground has ended; the same command opens it again") from None
    return None
