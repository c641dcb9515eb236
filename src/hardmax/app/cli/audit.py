"""`hardmax audit`: how accurate an attention function and its gradients are where attention is hard."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from hardmax.app.cli.output import Output, command, writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardmax.app.results.answer import Answer


@command
def audit(
    out: Output,
    function: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION",
            help="An attention function of an installed module, or FILE.py:FUNCTION (the file is executed).",
        ),
    ],
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Precision of the inputs; may be given more than once. Default: all."
        ),
    ] = None,
    level: Annotated[str, typer.Option(metavar="usual|exact", help="How large errors may be.")] = "usual",
    full: Annotated[
        bool, typer.Option("--full", help="Audit the product of all factors; takes minutes.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the inputs.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.svg", help="Write a heat map of the errors.")
    ] = None,
) -> int:
    """Compare an attention function and its gradients with the truth where attention is hard.

    The function has the signature of torch.nn.functional.scaled_dot_product_attention.

    Example: hardmax audit torch.nn.functional:scaled_dot_product_attention --dtype bfloat16
    """
    from hardmax import torch
    from hardmax._lib.notebook import save_picture
    from hardmax.trials.provenance import load

    if plot is not None:
        writable("--plot", plot)
    attention = load(function)
    with out.progress("auditing", 1) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.advance(done - bar.done)

        result = torch.audit(
            attention, dtype or torch.auditing.DTYPES, level, full=full, rng=seed, progress=progress
        )
    code = out.show(cast("Answer", result))  # it has what an answer has, and torch imports no app
    if plot is not None:
        save_picture(cast("Figure", result.plot().figure), plot)
    return code
