"""`hardmax ntp train`: Algorithm 1 on a file of sentences."""

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax.cli.errors import DONE, Interrupted
from hardmax.cli.interrupts import noted
from hardmax.cli.output import Output, command
from hardmax.cli.writing import writable

if TYPE_CHECKING:
    from rich.table import Table

    from hardmax.nexttoken import Analysis
    from hardmax.nexttoken.model_file import Reached
    from hardmax.nexttoken.training import Training

MOST_STEPS = 10**15  # years
UNCLEAR = 0.5  # a probability of the right token that deserves a word


@command("hardmax.ntp-train/1")
def train(
    out: Output,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Sentences: text, one per line, or JSON lists; .xz and .gz too."),
    ],
    model: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Where to write the model.")],
    steps: Annotated[int, typer.Option(min=0, max=MOST_STEPS, help="Steps of stage 2 (attention).")] = 900,
    stage1: Annotated[
        int, typer.Option(min=1, max=MOST_STEPS, help="Steps of stage 1 (output-value matrix).")
    ] = 900,
    eta: Annotated[float | None, typer.Option(help="Step of stage 2; 0.05/sqrt(V) by default.")] = None,
    eta0: Annotated[float | None, typer.Option(help="Step of stage 1; 0.2/sqrt(V) by default.")] = None,
    uniform: Annotated[
        bool, typer.Option("--uniform", help="Every distinct sentence weighs the same, however frequent.")
    ] = False,
    max_length: Annotated[int, typer.Option(min=2, max=10_000, help="Cut longer raw sentences.")] = 64,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Give tokens that begin no sentence a next token; they are named."),
    ] = False,
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
    from hardmax import nexttoken
    from hardmax._lib import expect
    from hardmax.nexttoken.model_file import Reached, save_model
    from hardmax.nexttoken.training import train as run_training
    from hardmax.problem.output_value import best_loss

    for name, step in (("--eta", eta), ("--eta0", eta0)):
        if step is not None:
            expect.positive(name, step)
    writable("--out", model, file)
    sentences = nexttoken.read_sentences(file, max_length=max_length)
    for note in sentences.notes:
        out.say(f"{file}: {note}")
    trie = nexttoken.Trie.build(sentences)
    analysis = nexttoken.analyze(trie, repair=repair)
    samples = nexttoken.Samples.from_trie(trie, uniform=uniform)
    _refuse(analysis, file, anyway)
    settings: dict[str, Any] = {"stage1": stage1, "rate": eta, "rate0": eta0, "n": analysis.n}
    start, before = None, None
    if resume and model.exists():
        start, before = _found(model, Reached.by(run_training(samples, steps=0, **settings)), steps)
    with out.progress("training", steps) as bar, noted() as interrupted:
        bar.advance(before.steps if before else 0)
        run = run_training(
            samples, steps=steps, start=start, after=before.steps if before else 0,
            progress=bar.advance, stop=interrupted, **settings,
        )  # fmt: skip
        if run.event:
            raise ValueError(
                f"{file}: the stage-2 gradient is exactly 0 after {run.steps:,} steps: the sentences' pulls "
                "cancel, so there is no direction to take"
            )
        reached = Reached.by(run, before=before.signed_steps if before else 0)
        save_model(model, run.predictor, reached)
    for name, (step, bound) in run.conditions.items():
        if not step <= bound:
            out.say(f"the step {step:g} is above the bound of the condition {name}, {bound:g}")
    top = math.exp(-best_loss(run.W_ov.V, run.W_ov.margin or 0.0))
    if top < UNCLEAR:
        out.say(
            f"after {stage1:,} steps of stage 1 the right next token has a probability of at most {top:.2g}, "
            "however long stage 2 is; a larger --stage1 or --eta0 raises it"
        )
    fields = _fields(run, analysis, model, reached, steps)
    out.result(fields, lambda: _table(fields))
    if reached.steps < steps:
        again = ["hardmax", "ntp", "train", str(file), "--out", str(model), "--resume"]
        given = {
            "--steps": (steps, 900), "--stage1": (stage1, 900), "--eta": (eta, None), "--eta0": (eta0, None),
            "--max-length": (max_length, 64),
        }  # fmt: skip
        again += [word for name, (v, usual) in given.items() if v != usual for word in (name, str(v))]
        flags = {"--uniform": uniform, "--repair": repair, "--anyway": anyway}
        again += [name for name, wanted in flags.items() if wanted]
        raise Interrupted(
            f"interrupted after {reached.steps:,} of {steps:,} steps; {model} holds the model so far; "
            f"go on with: {shlex.join(again)}"
        )
    return DONE


def _found(model: Path, wanted: "Reached", steps: int) -> tuple[Any, "Reached"]:
    """The values of W_kq in MODEL and how far it came, if that is on the way of this command."""
    from hardmax.nexttoken.model_file import load_reached

    predictor, reached = load_reached(model)
    if reached is None:
        raise ValueError(f"--resume: {model} does not say how it was trained; train without --resume")
    differences = reached.differs_from(wanted)
    if differences:
        raise ValueError(
            f"--resume: {model} was trained otherwise, with other values of: {', '.join(differences)}; "
            "give the same, or train without --resume"
        )
    if reached.steps > steps:
        raise ValueError(
            f"--resume: {model} holds {reached.steps:,} steps already; give --steps {reached.steps} or more"
        )
    return predictor.values, reached


def _refuse(analysis: "Analysis", file: Path, anyway: bool) -> None:
    if analysis.legal or anyway:
        return
    from hardmax import nexttoken

    mended = nexttoken.analyze(analysis.trie, repair=True)
    if mended.legal:
        count, first = len(mended.repaired), mended.words(mended.repaired[:1])
        raise ValueError(
            f"{file} is not realizable: tokens that begin no sentence: {count:,}, such as {first[0]!r}; "
            "--repair gives them a next token"
        )
    kinds = ", ".join(each.kind for each in analysis.violations)
    raise ValueError(
        f"{file} is not realizable ({kinds}); see hardmax ntp check {shlex.quote(str(file))}, train on the "
        "part that hardmax ntp check --save-realizable writes, or give --anyway"
    )


def _fields(
    run: "Training", analysis: "Analysis", model: Path, reached: "Reached", steps: int
) -> dict[str, Any]:
    reasons = [
        (reached.steps < steps, f"interrupted after {reached.steps:,} of {steps:,} steps"),
        (not run.pairs.n, "attention has nothing to learn from these sentences"),
        (run.norm_kq == 0.0, "misalignment_kq is undefined before the first step"),
        (run.star.values is None, run.star.reason),
        (math.isnan(run.log_excess_loss), "excess_loss is not known: attention alone cannot fit the data"),
    ]
    return {
        "steps": reached.steps,
        "stage1": run.stage_1_steps,
        "eta": run.rate,
        "eta0": run.rate_0,
        "realizable": not analysis.violations,
        "repaired": analysis.words(analysis.repaired),
        "loss": run.loss,
        "excess_loss": run.excess_loss,
        "log_excess_loss": run.log_excess_loss,
        "norm_ov": run.norm_ov,
        "norm_kq": run.norm_kq,
        "misalignment_ov": run.misalignment_ov,
        "misalignment_kq": run.misalignment_kq,
        "signed_steps": reached.signed_steps,
        "conditions": [_condition(name, *pair) for name, pair in run.conditions.items()],
        "model": str(model),
        "status": "; ".join(reason for holds, reason in reasons if holds) or "complete",
    }


def _condition(name: str, step: float, bound: float) -> dict[str, Any]:
    unknown = "the bound is not known" if math.isnan(bound) else "there is no bound"
    status = "complete" if math.isfinite(bound) else unknown
    return {"condition": name, "step": step, "bound": bound, "holds": step <= bound, "status": status}


def _table(fields: dict[str, Any]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    labels = {
        "steps": "steps of stage 2",
        "loss": "loss",
        "excess_loss": "above the best that attention can reach",
        "norm_ov": "norm of W_ov",
        "norm_kq": "norm of W_kq",
        "misalignment_ov": "1 - cos(W_ov, W_ov*)",
        "misalignment_kq": "1 - cos(W_kq, W_kq*)",
        "model": "model",
        "status": "status",
    }
    for key, label in labels.items():
        value = fields[key]
        if isinstance(value, float):
            value = "not known" if math.isnan(value) else f"{value:.6g}"
        table.add_row(label, Text(str(value)))  # a name may hold brackets, which are no markup
    return table
