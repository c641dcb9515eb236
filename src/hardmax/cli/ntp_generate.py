"""`hardmax ntp generate`: a random realizable dataset."""

from pathlib import Path
from typing import Annotated

import typer

from hardmax.cli.errors import DONE, NOT_AS_EXPECTED
from hardmax.cli.output import Output, command
from hardmax.cli.writing import writable


@command("hardmax.ntp-generate/1")
def generate(
    out: Output,
    vocabulary: Annotated[int, typer.Option(min=1, max=2_000_000, help="Number of tokens.")] = 20,
    permutation: Annotated[
        str, typer.Option(help="cycle (one of all tokens), derangement (no token follows itself) or uniform.")
    ] = "cycle",
    lag0: Annotated[float, typer.Option(min=0, max=1, help="Probability that a query has lag 0.")] = 0.5,
    max_lag: Annotated[int, typer.Option(min=1, max=10_000, help="Other lags are uniform on 1 to this.")] = 3,
    max_length: Annotated[int, typer.Option(min=2, max=10_000, help="Longest raw sentence.")] = 8,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Cut each sentence at a random length.")
    ] = False,
    assumption3: Annotated[
        bool, typer.Option("--assumption3/--no-assumption3", help="End sentences before Assumption 3 breaks.")
    ] = True,
    multiplicity: Annotated[
        int,
        typer.Option(min=1, max=1_000_000, help="Give each sentence a random number of times, 1 to this."),
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    file: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the sentences, one per line (or .json)."),
    ] = None,
) -> int:
    """Draw a random realizable dataset (C-ALG-GEN) and check it.

    Example: hardmax ntp generate --vocabulary 50 --seed 1 --out drawn.txt
    """
    from hardmax import nexttoken

    if file is not None:
        writable("--out", file)
    made = nexttoken.generate(
        vocabulary,
        permutation=permutation,
        lag0=lag0,
        max_lag=max_lag,
        max_length=max_length,
        truncate=truncate,
        assumption3=assumption3,
        multiplicity=multiplicity,
        rng=seed,
    )
    analysis = nexttoken.analyze(made.text)
    if file is not None:
        nexttoken.write_sentences(file, made.text)
        out.say(f"{len(made.sentences):,} sentences written to {file}")
    fields = {
        "seed": seed,
        "out": None if file is None else str(file),
        "realizable": analysis.realizable,
        "violations": [{"kind": each.kind, "count": each.count} for each in analysis.violations],
        "sentences": made.sentences,
        "collocation": made.n,
        "lags": made.lag,
        "samples": len(analysis.trie.samples),
        "longest": int(analysis.trie.depth.max()),
    }
    out.result(fields, lambda: "\n".join(" ".join(map(str, sentence)) for sentence in made.sentences))
    as_asked = analysis.realizable if assumption3 else analysis.legal
    return DONE if as_asked else NOT_AS_EXPECTED
