"""`hardmax certify`: check a saved certificate again, by code that shares nothing with the solver."""

from pathlib import Path
from typing import Annotated

import typer

from hardmax.answers import certified
from hardmax.cli.output import Output, command


@command
def certify(
    out: Output,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate, as hardmax solve writes it.")],
) -> int:
    """Check a certificate in exact arithmetic, by separate code.

    Example: hardmax certify proofs/selection-0.json
    """
    return out.show(certified.certify(file))
