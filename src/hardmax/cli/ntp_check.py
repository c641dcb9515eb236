"""`hardmax ntp check`: is a next-token dataset realizable, and if not, why and how much of it is?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax.cli.errors import DONE, INCOMPLETE, NOT_AS_EXPECTED
from hardmax.cli.output import Output, command
from hardmax.cli.writing import writable

if TYPE_CHECKING:
    from rich.text import Text

    from hardmax.nexttoken import Analysis, RealizablePart

# Up to this many tokens every query is listed with all tokens; beyond, only queries that relate some.
SMALL = 1000


@command("hardmax.ntp-check/2")
def check(
    out: Output,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Sentences: text, one per line, or JSON lists; .xz and .gz too."),
    ],
    uniform: Annotated[
        bool, typer.Option("--uniform", help="Every distinct sentence weighs the same, however frequent.")
    ] = False,
    max_length: Annotated[
        int, typer.Option(min=2, max=10_000, help="Check longer raw sentences up to here.")
    ] = 64,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Give tokens that begin no sentence a next token; they are named."),
    ] = False,
    save_realizable: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write the realizable part that was found; .json for JSON."),
    ] = None,
) -> int:
    """Check that a dataset is realizable, and show where it is not.

    Example: hardmax ntp check notes.txt --repair --save-realizable part.txt
    """
    import numpy as np

    from hardmax import nexttoken

    if save_realizable is not None:
        writable("--save-realizable", save_realizable, file)
    sentences = nexttoken.read_sentences(file, max_length=max_length)
    trie = nexttoken.Trie.build(sentences)
    analysis = nexttoken.analyze(trie, repair=repair)
    part = None if not analysis.violations else nexttoken.realizable_part(trie, repair=repair)
    for note in sentences.notes:
        out.say(f"{file}: {note}")
    saved = None
    kept = sentences if part is None else part.sentences
    if save_realizable is not None:
        if kept is None:
            out.say(f"nothing was written to {save_realizable}: the realizable part is empty")
        else:
            nexttoken.write_sentences(save_realizable, kept)
            saved = str(save_realizable)
    weight = trie.frequencies(uniform=uniform)
    fields = {
        "file": str(file),
        "realizable": analysis.realizable,
        "status": _status(analysis),
        "assumptions": analysis.assumptions,
        "violations": [
            {"kind": each.kind, "count": each.count, "witness": each.witnesses[0], "more": each.witnesses[1:]}
            for each in analysis.violations
        ],
        "repaired": analysis.words(analysis.repaired),
        "collocation": _collocation(analysis),
        "orders": _orders(analysis),
        "components": _components(analysis),
        "sentences": {
            "count": sentences.n,
            "longest": int(trie.depth.max()),
            "cut": sentences.cut,
            "cut_tokens": sentences.cut_tokens,
            "max_length": max_length,
        },
        "vocabulary": trie.V,
        "samples": len(trie.samples),
        "frequencies": {
            "uniform": uniform,
            "smallest": float(np.min(weight)) if len(weight) else None,
            "largest": float(np.max(weight)) if len(weight) else None,
            "status": "complete" if len(weight) else "no sentence has two tokens",
        },
        "notes": sentences.notes,
        "realizable_part": None if part is None else _measured(part),
        "teaches_attention": kept is not None and kept.teach_attention,
        "saved": saved,
    }

    def text() -> "Text":
        from hardmax.cli.ntp_check_text import report

        return report(analysis, part, fields)

    out.result(fields, text)
    if analysis.realizable is None:
        return INCOMPLETE
    return DONE if analysis.realizable else NOT_AS_EXPECTED


def _status(analysis: "Analysis") -> str:
    sentences = analysis.trie.sentences
    if not sentences.cut:
        return "complete"
    longer = f"{sentences.cut:,} of {sentences.n:,} sentences are longer"
    return f"checked up to {sentences.max_length} tokens; {longer}"


def _collocation(analysis: "Analysis") -> dict[str, str | None]:
    words = analysis.trie.sentences.vocabulary
    return {words[x]: words[y] if y >= 0 else None for x, y in enumerate(analysis.n.tolist())}


def _orders(analysis: "Analysis") -> dict[str, dict[str, Any]]:
    """The types of tokens under each query, in words."""
    orders, words = analysis.orders, analysis.trie.sentences.vocabulary
    found: dict[int, dict[str, Any]] = {q: _untyped() for q in range(orders.V)} if orders.V <= SMALL else {}
    for name in ("optimal", "non_optimal", "confused"):
        for q, x in zip(*(column.tolist() for column in orders.of_type(name)), strict=True):
            found.setdefault(q, _untyped())[name].append(words[x])
    for typed in found.values():
        seen = {*typed["optimal"], *typed["non_optimal"], *typed["confused"]}
        typed["non_comparable"] = [w for w in words if w not in seen] if orders.V <= SMALL else None
        typed["status"] = "complete" if orders.V <= SMALL else "non_comparable: all words not listed here"
    return {words[q]: typed for q, typed in sorted(found.items())}


def _components(analysis: "Analysis") -> dict[str, list[list[str]]]:
    word = analysis.trie.sentences.vocabulary
    return {word[q]: [analysis.words(each) for each in found] for q, found in analysis.components.items()}


def _untyped() -> dict[str, Any]:
    return {"optimal": [], "non_optimal": [], "confused": [], "non_comparable": []}


def _measured(part: "RealizablePart") -> dict[str, Any]:
    return {
        "sentences": part.whole + part.cut,
        "whole": part.whole,
        "cut": part.cut,
        "vocabulary": 0 if part.sentences is None else len(part.sentences.vocabulary),
        "samples": part.samples,
        "of_samples": part.of_samples,
    }
