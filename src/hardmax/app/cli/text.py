"""`hardmax text`: train a classifier that names the words it chose, and ask it."""

from pathlib import Path
from typing import Annotated

import typer

from hardmax.app.cli.errors import Interrupted
from hardmax.app.cli.output import Output, command, writable
from hardmax.app.results.text import HELD_OUT, text_explain, text_important, text_train

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Text classification: train on labelled texts, see which words decide.",
)

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that hardmax text train wrote.")]
Label = Annotated[str | None, typer.Option(metavar="CLASS", help="Only for this class.")]
PICTURES = (".svg", ".png", ".pdf")


@app.command()
@command
def train(
    out: Output,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Texts and labels: CSV, JSON lines, Parquet; .xz and .gz too."),
    ],
    model: Annotated[
        Path | None, typer.Option("--out", metavar="MODEL", help="Where to write the model.")
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="NAME", help="The column of texts.")] = None,
    label: Annotated[str | None, typer.Option(metavar="NAME", help="The column of labels.")] = None,
    test: Annotated[Path | None, typer.Option(metavar="FILE", help="Texts to test on.")] = None,
    held_out: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Without --test: the share of texts to test on.")
    ] = HELD_OUT,
    ngrams: Annotated[int, typer.Option(min=1, max=8, help="The most words in a token.")] = 2,
    epochs: Annotated[int | None, typer.Option(min=1, max=10_000, help="Passes over the texts.")] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Train to predict from so many tokens alone.")
    ] = None,
    entropy: Annotated[
        float | None, typer.Option(min=0.0, help="Strength of a penalty on the entropy of attention.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the state after each pass, and go on from it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; all cores by default.")] = None,
) -> int:
    """Train a classifier on labelled texts and test it on held-out ones.

    Example: hardmax text train reviews.csv --out model.npz
    """
    if top is not None and entropy is not None:
        raise ValueError("--top and --entropy must not be given together; choose one way to be sparse")
    needed = [file, *([test] if test else [])]
    for option, path in (("--out", model), ("--checkpoint", checkpoint)):
        if path is not None:
            writable(option, path, *needed)
    told = 0
    with out.progress("training", epochs or 5) as bar:

        def progress(done: int, of: int) -> None:
            nonlocal told
            bar.total = of
            bar.advance(done - told)
            told = done

        try:
            answer = text_train(
                file,
                model,
                text=text,
                label=label,
                test=test,
                held_out=held_out,
                ngrams=ngrams,
                epochs=epochs,
                top_k=top,
                entropy_penalty=entropy,
                checkpoint=checkpoint,
                rng=seed,
                workers=workers,
                progress=progress,
            )
        except KeyboardInterrupt:
            if checkpoint is None or not told:
                raise
            raise Interrupted(
                f"interrupted after {told} passes, which {checkpoint} holds; give the same command to go on"
            ) from None
    if answer.left_out:
        out.say(f"{file}: {answer.left_out:,} texts without a label were left out")
    if test is None and held_out:
        out.say(
            "texts were held out at random; where several are about one thing, as films in reviews are, "
            "accuracy on new things is lower: give a file of these by --test"
        )
    return out.show(answer)


@app.command()
@command
def explain(
    out: Output,
    model: Model,
    text: Annotated[str, typer.Argument(metavar='"TEXT"', help="A text.")],
    label: Label = None,
    page: Annotated[
        Path | None, typer.Option(metavar="OUT.html", help="Write the explanation as a page.")
    ] = None,
) -> int:
    """Take the prediction of a text apart: attention, value and contribution of its words.

    Example: hardmax text explain model.npz "Not bad at all!"
    """
    if page is not None:
        writable("--page", page, model)
    return out.show(text_explain(model, text, label=label, page=page))


@app.command()
@command
def important(
    out: Output,
    model: Model,
    n: Annotated[int, typer.Option("--limit", min=1, help="How many words of each class.")] = 10,
    label: Label = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.svg", help="Draw the map of all words; svg, png or pdf.")
    ] = None,
) -> int:
    """List the words that a model selects for each class.

    Example: hardmax text important model.npz --limit 20 --plot words.svg
    """
    if plot is not None:
        if plot.suffix not in PICTURES:
            raise ValueError(f"--plot must end in {', '.join(PICTURES)}, got {plot}")
        writable("--plot", plot, model)
    return out.show(text_important(model, n=n, label=label, picture=plot))
