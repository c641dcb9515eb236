"""`hardmax probe`: what the heads of a trained model select, how hard, and whether chance comes as close."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from hardmax.app.cli.output import Output, command, writable


@command
def probe(
    out: Output,
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A folder of transformers (safetensors), or a GGUF file.")
    ],
    texts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Texts, one per line or a JSON list; English by default."),
    ] = None,
    queries: Annotated[
        int, typer.Option(min=1, help="Hardest queries of a head that make its problem.")
    ] = 64,
    null: Annotated[
        int, typer.Option(min=1, help="Random heads that each head is compared with; 19 or more.")
    ] = 99,
    length: Annotated[int, typer.Option(min=2, help="Tokens of a text that are kept.")] = 12,
    lift: Annotated[
        bool, typer.Option("--lift", help="Rotary positions: the relaxation with a matrix for each distance.")
    ] = False,
    layer: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this layer; may be given more than once.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random heads.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; all cores by default.")] = None,
    show: Annotated[int, typer.Option(min=0, help="Heads in the table; 0 for all.")] = 24,
    inner: Annotated[
        bool, typer.Option("--inner", help="Show numbers without the first token and the query's own.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(metavar="OUT.html", help="Write a page: map of heads, texts, selected tokens."),
    ] = None,
) -> int:
    """How hard the heads of a model are, and how close to max margin.

    Example: hardmax probe all-MiniLM-L6-v2 --page heads.html
    """
    from dataclasses import replace

    from hardmax.app.results.probed import probe_file
    from hardmax.torch.probing.tables import null_notes

    for note in null_notes(null):  # before a long run, not after it
        out.say(f"warning: {note}")
    if page is not None:
        writable("--page", page, model, *([] if texts is None else [texts]))
    with out.progress("probing", 1) as bar, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+ random head")  # the notes of the answer have it

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.advance(done - bar.done)

        answer = probe_file(
            model,
            texts,
            progress,
            queries=queries,
            null=null,
            length=length,
            rotary="lift" if lift else "rotated",
            layers=layer,
            rng=seed,
            workers=workers,
        )
    answer = replace(answer, shown=show or len(answer.heads.heads), inner=inner)
    code = out.show(answer)
    if page is not None:
        answer.save(page)
        out.say(f"{page}: open it in a browser")
    return code
