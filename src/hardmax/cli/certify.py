"""`hardmax certify`: check a saved certificate again, by code that shares nothing with the solver."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax.cli.errors import DONE, NOT_AS_EXPECTED
from hardmax.cli.output import Output, command

if TYPE_CHECKING:
    from rich.text import Text


@command("hardmax.certify/1")
def certify(
    out: Output,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate, as hardmax solve writes it.")],
) -> int:
    """Check a certificate in exact arithmetic, by separate code.

    Example: hardmax certify proofs/selection-0.json
    """
    from hardmax._lib.reading import read_json
    from hardmax.margin.certify import certify as check

    content = read_json(file, "a certificate")
    if not isinstance(content, dict) or content.get("schema") != "hardmax.certificate/1":
        raise ValueError(f"{file} is not a certificate; give a file that hardmax solve --certificates wrote")
    found = check(content)
    out.result(found, lambda: _text(found))
    return DONE if found["valid"] else NOT_AS_EXPECTED


def _text(found: dict[str, Any]) -> "Text":
    from rich.text import Text

    if not found["valid"]:
        return Text("\n  ".join(["not valid:", *found["violations"]]))
    return Text(
        "\n".join([f"valid: {found['what']}", *(f"not checked: {each}" for each in found["trusted"])])
    )
