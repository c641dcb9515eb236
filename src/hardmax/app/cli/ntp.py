"""`hardmax ntp`: next-token prediction; check, make and train on datasets, predict."""

from pathlib import Path
from typing import Annotated

import typer

from hardmax.app.cli.errors import Interrupted, noted
from hardmax.app.cli.output import Output, command, writable
from hardmax.app.results.nexttoken.checked import MAX_LENGTH, ntp_check
from hardmax.app.results.nexttoken.sentences import ntp_generate, ntp_predict
from hardmax.app.results.nexttoken.trained import STEPS, Learning
from hardmax.data.sentences.punctuation import KEEP

MOST_STEPS = 10**15  # years

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Next-token prediction: check, make and train on datasets.",
)

Sentences = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Sentences: text, one per line, or JSON lists; .xz and .gz too."),
]
Uniform = Annotated[
    bool, typer.Option("--uniform", help="Every distinct sentence weighs the same, however frequent.")
]
Punctuation = Annotated[
    str,
    typer.Option(
        metavar="keep|split|strip", help="Marks at the ends of words: kept, tokens of their own, or left out."
    ),
]
Repair = Annotated[
    bool, typer.Option("--repair", help="Give tokens that begin no sentence a next token; they are named.")
]


@app.command()
@command
def check(
    out: Output,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Sentences: text of any size, one per line, or JSON; .xz, .gz; - is standard input.",
        ),
    ],
    uniform: Uniform = False,
    max_length: Annotated[
        int, typer.Option(min=2, max=10_000, help="Check longer raw sentences up to here.")
    ] = MAX_LENGTH,
    repair: Repair = False,
    punctuation: Punctuation = KEEP,
    save_realizable: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write the realizable part that was found; .json for JSON."),
    ] = None,
    backend: Annotated[str, typer.Option(metavar="local|dask|ray", help="Where files are read.")] = "local",
    address: Annotated[str | None, typer.Option(metavar="A", help="The cluster to join.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="One for each core by default.")] = None,
) -> int:
    """Check that a dataset is realizable, and show where it is not.

    Example: hardmax ntp check notes.txt --repair --save-realizable part.txt
    """
    paths = [_path(file) for file in files]
    if save_realizable is not None:
        from hardmax.data.sentences.reading import refuse_pipes

        writable("--save-realizable", save_realizable, *paths)
        refuse_pipes(paths)
    with out.progress("checking", 1000) as bar, noted() as interrupted:
        try:
            answer = ntp_check(
                *paths,
                uniform=uniform,
                max_length=max_length,
                repair=repair,
                punctuation=punctuation,
                backend=backend,
                address=address,
                workers=workers,
                interrupted=interrupted,
                tell=lambda share: bar.advance(int(1000 * share) - bar.done),
            )
        except KeyboardInterrupt as stop:
            if not str(stop):  # a second one, while files were read
                raise
            raise Interrupted(f"{stop}; start the command again to check all of them") from None
    for note in answer.sentences.notes:
        out.say(f"{answer.name}: {note}")
    if not answer.is_whole:
        out.show(answer)
        raise Interrupted(f"{answer.status}, no more; start the command again to check all of them")
    if save_realizable is not None and answer.is_empty:
        out.say(f"nothing was written to {save_realizable}: the realizable part is empty")
    elif save_realizable is not None:
        answer = answer.save(save_realizable)
    return out.show(answer)


@app.command()
@command
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
    if file is not None:
        writable("--out", file)
    answer = ntp_generate(
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
    if file is not None:
        answer = answer.save(file)
        out.say(f"{len(answer.made.sentences):,} sentences written to {file}")
    return out.show(answer)


@app.command()
@command
def train(
    out: Output,
    file: Sentences,
    model: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Where to write the model.")],
    steps: Annotated[int, typer.Option(min=0, max=MOST_STEPS, help="Steps of stage 2 (attention).")] = STEPS,
    stage1: Annotated[
        int, typer.Option(min=1, max=MOST_STEPS, help="Steps of stage 1 (output-value matrix).")
    ] = STEPS,
    rate: Annotated[
        float | None, typer.Option(help="Optimizer size of stage 2; 0.05/sqrt(V) by default.")
    ] = None,
    first_rate: Annotated[
        float | None, typer.Option(help="Optimizer size of stage 1; 0.2/sqrt(V) by default.")
    ] = None,
    uniform: Uniform = False,
    max_length: Annotated[
        int, typer.Option(min=2, max=10_000, help="Cut longer raw sentences.")
    ] = MAX_LENGTH,
    repair: Repair = False,
    punctuation: Punctuation = KEEP,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Train on data that is not realizable too.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the steps that MODEL holds, if it exists.")
    ] = False,
) -> int:
    """Train the one-layer model in two stages, towards its limit.

    Example: hardmax ntp train notes.txt --out model.npz --steps 10000
    """
    from hardmax._lib import expect
    from hardmax.nexttoken import read_sentences

    for name, given in (("--rate", rate), ("--first-rate", first_rate)):
        if given is not None:
            expect.positive(name, given)
    writable("--out", model, file)
    sentences = read_sentences(file, max_length=max_length, punctuation=punctuation)
    for note in sentences.notes:
        out.say(f"{file}: {note}")
    settings = (steps, stage1, rate, first_rate, uniform, repair, anyway, resume, punctuation)
    job = Learning(sentences, str(file), model, *settings)
    with out.progress("training", steps) as bar, noted() as interrupted:
        answer = job.run(lambda done, total: bar.advance(done - bar.done), interrupted)
    for remark in answer.remarks:
        out.say(remark)
    code = out.show(answer)
    if answer.goes_on is not None:
        raise Interrupted(
            f"interrupted after {answer.reached.steps:,} of {steps:,} steps; {model} holds the model so far; "
            f"go on with: {answer.goes_on}"
        )
    return code


@app.command()
@command
def predict(
    out: Output,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that hardmax ntp train wrote.")],
    sentence: Annotated[
        str, typer.Argument(metavar='"TOKENS ..."', help="A sentence, seen or not, or a JSON list of words.")
    ],
    limit: Annotated[bool, typer.Option("--limit", help="As if stage 2 had gone on for ever.")] = False,
) -> int:
    """Predict the next token of a sentence, with the reason.

    Example: hardmax ntp predict model.npz "boil pour steep"
    """
    return out.show(ntp_predict(model, _words(sentence), limit=limit))


def _path(file: str) -> Path:
    """Where a file lies: - is standard input, and no name is not this folder, as it would be for Path."""
    if not file:
        raise ValueError("FILE must be the name of a file, got an empty one; is a shell variable not set?")
    return Path("/dev/stdin" if file == "-" else file)


def _words(sentence: str) -> list[str]:
    """The words between white space; a JSON list can also name words that hold some."""
    from hardmax._lib.reading import NotJson, parse_json

    try:
        listed = parse_json(sentence)
    except NotJson:
        return sentence.split()
    fits = isinstance(listed, list) and all(isinstance(word, str) for word in listed)
    return listed if fits else sentence.split()
