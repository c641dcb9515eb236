"""`hardmax play`: the playground in a browser."""

from typing import Annotated

import typer

from hardmax.app.cli.errors import Interrupted
from hardmax.app.cli.output import Output, command


@command
def play(
    out: Output,
    what: Annotated[
        str | None,
        typer.Argument(metavar="WHAT", help="A problem (.json, .npz, .csv), sentences (.txt), or a link."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; this machine only by default.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; a free one by default.")] = 0,
    seconds: Annotated[float, typer.Option(help="End a question that takes longer.")] = 20.0,
    export: Annotated[
        str | None, typer.Option(metavar="FILE.html", help="Write the page as one file and exit.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> int:
    """Open the playground: drag tokens, watch attention choose.

    Example: hardmax play examples/three-inputs.json
    """
    from hardmax._lib import expect
    from hardmax.app.playground.server import Serving, serve

    if export is not None:
        from hardmax.app.playground.export import export_page

        out.show(export_page(export, what))
        return 0
    expect.positive("--seconds", seconds)

    def ready(serving: Serving) -> None:
        out.show(serving)
        if serving.kept:
            out.say(f"{what} is too large for an address; the page gets it from this server")

    try:
        serve(what, host=host, port=port, seconds=seconds, browser=browser, ready=ready)
    except KeyboardInterrupt:
        raise Interrupted("the playground has ended; the same command opens it again") from None
    return 0
