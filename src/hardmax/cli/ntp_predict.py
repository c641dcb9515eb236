"""`hardmax ntp predict`: the next token, what was attended to, and why."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hardmax.cli.errors import DONE
from hardmax.cli.output import Output, command

if TYPE_CHECKING:
    from rich.console import Group

    from hardmax.nexttoken.predict import Prediction

SHOWN = 10  # most probable next tokens


@command("hardmax.ntp-predict/1")
def predict(
    out: Output,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that hardmax ntp train wrote.")],
    sentence: Annotated[
        str,
        typer.Argument(metavar='"TOKENS ..."', help="A sentence, seen or not, or a JSON list of words."),
    ],
    limit: Annotated[bool, typer.Option("--limit", help="As if stage 2 had gone on for ever.")] = False,
) -> int:
    """Predict the next token of a sentence, with the reason.

    Example: hardmax ntp predict model.npz "boil pour steep"
    """
    from hardmax.nexttoken.model_file import load_model

    words = _words(sentence)
    told = load_model(model).predict(words, limit=limit)
    fields = {
        "sentence": words,
        "next": [{"token": word, "probability": p} for word, p in told.next(SHOWN)],
        "attended": [{"token": a.word, "weight": a.weight, "type": a.type} for a in told.attended],
        "rule": told.rule,
        "reason": told.reason,
    }
    out.result(fields, lambda: _text(told))
    return DONE


def _words(sentence: str) -> list[str]:
    """The words between white space; a JSON list can also name words that hold some."""
    from hardmax._lib.reading import NotJson, parse_json

    try:
        listed = parse_json(sentence)
    except NotJson:
        return sentence.split()
    fits = isinstance(listed, list) and all(isinstance(word, str) for word in listed)
    return listed if fits else sentence.split()


def _text(told: "Prediction") -> "Group":
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    from hardmax.cli.ntp_words import shown, spelled

    table = Table(box=None, pad_edge=False)
    for name in ("next", "probability", "attended", "weight", "type"):
        table.add_column(name)
    left = [(escape(shown(word)), f"{p:.6g}") for word, p in told.next(SHOWN)]
    right = [(escape(shown(a.word)), f"{a.weight:.6g}", a.type.replace("_", "-")) for a in told.attended]
    for i in range(max(len(left), len(right))):
        table.add_row(*(left[i] if i < len(left) else ("", "")), *(right[i] if i < len(right) else ()))
    return Group(table, escape(f"{told.rule}: {spelled(told.reason)}"))
