"""`ntp train`: the two-stage training of the one-layer model, written to a file, resumable."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardmax import nexttoken
from hardmax._lib.arguments import check_arguments
from hardmax._lib.result import Result
from hardmax._lib.terminal import DONE, INTERRUPTED, grid
from hardmax.app.results.next_token_check import LONGEST, MAX_LENGTH, NAMES
from hardmax.app.results.session import check_range, session, writable
from hardmax.data.sentences.punctuation import KEEP

if TYPE_CHECKING:
    from rich.table import Table

    from hardmax.data.sentences.sentences import Sentences
    from hardmax.nexttoken import Analysis
    from hardmax.nexttoken.predict import Reached
    from hardmax.nexttoken.training import Training

STEPS = 900
MOST_STEPS = 10**15  # years
UNCLEAR = 0.5  # a probability of the right token that deserves a word


@dataclass(frozen=True, eq=False, repr=False)
class NextTokenTraining(Result):
    """A training and the file of its model; ``resume_command`` is the shell command that continues it.

    >>> import tempfile
    >>> from hardmax.app.results.next_token_predict import predict_next
    >>> from hardmax.app.results.next_token_train import train_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = train_file(["S V O P", "V O P", "O P P", "P S V"], f"{folder}/model.npz")
    ...     told = predict_next(result.model, "O S P")
    >>> result.reached.steps, result.exit_code, told.prediction.next(1)[0][0]
    (900, 0, 'P')
    """

    schema: ClassVar[str] = "hardmax.ntp-train/1"

    run: Training
    analysis: Analysis
    model: str
    reached: Reached
    steps: int
    resume_command: str | None = None

    @property
    def exit_code(self) -> int:
        """0, or 130 if steps are left."""
        return DONE if self.reached.steps >= self.steps else INTERRUPTED

    @property
    def interruption(self) -> str | None:
        """After an interrupt: the steps that are done, and the command that resumes."""
        if self.resume_command is None:
            return None
        done = f"interrupted after {self.reached.steps:,} of {self.steps:,} steps"
        return f"{done}; {self.model} holds the model so far; go on with: {self.resume_command}"

    @property
    def headline(self) -> str:
        """The steps and the loss."""
        return f"{self.reached.steps:,} steps, loss {self.run.loss:.6g}, model {self.model}"

    @property
    def remarks(self) -> list[str]:
        """Warnings about step sizes and lengths of training."""
        from hardmax.problem.readouts import best_loss

        told = [
            f"the step {step:g} is above the bound of the condition {name}, {bound:g}"
            for name, (step, bound) in self.run.conditions.items()
            if not step <= bound
        ]
        top = math.exp(-best_loss(self.run.W_ov.V, self.run.W_ov.margin or 0.0))
        if top < UNCLEAR:
            told.append(
                f"after {self.run.stage_1_steps:,} steps of stage 1 the right next token has a probability "
                f"of at most {top:.2g}, however long stage 2 is; a larger `stage1` or `first_rate` raises it"
            )
        return told

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        run, reached = self.run, self.reached
        unknown = math.isnan(run.log_excess_loss)
        reasons = [
            (reached.steps < self.steps, f"interrupted after {reached.steps:,} of {self.steps:,} steps"),
            (not run.pairs.n, "attention has nothing to learn from these sentences"),
            (run.norm_kq == 0.0, "misalignment_kq is undefined before the first step"),
            (run.star.values is None, run.star.reason),
            (unknown, "excess_loss is not known: attention alone cannot fit the data"),
        ]
        return {
            "steps": reached.steps,
            "stage1": run.stage_1_steps,
            "eta": run.rate,
            "eta0": run.first_rate,
            "realizable": not self.analysis.violations,
            "repaired": self.analysis.words(self.analysis.repaired),
            "loss": run.loss,
            "excess_loss": run.excess_loss,
            "log_excess_loss": run.log_excess_loss,
            "norm_ov": run.norm_ov,
            "norm_kq": run.norm_kq,
            "misalignment_ov": run.misalignment_ov,
            "misalignment_kq": run.misalignment_kq,
            "signed_steps": reached.signed_steps,
            "conditions": [_condition(name, *pair) for name, pair in run.conditions.items()],
            "model": self.model,
            "status": "; ".join(reason for holds, reason in reasons if holds) or "complete",
        }

    def table(self) -> Table:
        """What `hardmax ntp train` prints."""
        fields, rows = self.fields(), []
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
            rows.append((label, str(value)))
        return grid(("what", "value"), rows, head=False)


@check_arguments
def train_file(
    data: str | os.PathLike[str] | Sentences | Iterable[str | Sequence[Any]],
    out: str | os.PathLike[str],
    *,
    steps: int = STEPS,
    stage1: int = STEPS,
    rate: float | None = None,
    first_rate: float | None = None,
    uniform: bool = False,
    max_length: int = MAX_LENGTH,
    repair: bool = False,
    punctuation: Literal["keep", "split", "strip"] = "keep",
    anyway: bool = False,
    resume: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> NextTokenTraining:
    """Train the one-layer next-token model in two stages and write it to a file.

    Args:
        data: File of sentences: text with one per line, or JSON; .xz and .gz too. In Python also sentences.
        out: File that receives the model.
        steps: Number of steps of stage 2 (attention).
        stage1: Number of steps of stage 1 (output-value matrix).
        rate: Step size of stage 2; 0.05/sqrt(V) by default.
        first_rate: Step size of stage 1; 0.2/sqrt(V) by default.
        uniform: Give every distinct sentence the same weight.
        max_length: Truncate raw sentences to this length.
        repair: Give tokens that begin no sentence a next token, and list them.
        punctuation: Punctuation at the ends of words: keep it, split it off as tokens, or strip it.
        anyway: Train although the data are not realizable.
        resume: Continue from the steps that the model file has, if it exists.
        progress: Called with the number of steps done and of all steps.

    >>> import tempfile
    >>> from hardmax.app.results.next_token_train import train_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = train_file(["a b", "b a"], f"{folder}/model.npz", steps=0)
    >>> result.json()["status"]
    'attention has nothing to learn from these sentences; misalignment_kq is undefined before the first step'
    """
    from hardmax._lib import expect
    from hardmax.nexttoken.analysis import as_sentences
    from hardmax.nexttoken.training import train

    for option, number in (("rate", rate), ("first_rate", first_rate)):
        if number is not None:
            expect.positive(option, number)
    check_range(0, MOST_STEPS, steps=steps)
    check_range(1, MOST_STEPS, stage1=stage1)
    check_range(2, LONGEST, max_length=max_length)
    name = "sentences"
    if isinstance(data, str | os.PathLike):
        name = os.fspath(data)
        writable("out", out, name)
        data = nexttoken.read_sentences(data, max_length=max_length, punctuation=punctuation)
        for note in data.notes:
            session().say(f"{name}: {note}")
    elif punctuation != KEEP:
        raise ValueError("`punctuation` requires a file; pass sentences whose tokens are split already")
    sentences = as_sentences(data)
    analysis = nexttoken.analyze(sentences, repair=repair)
    samples = nexttoken.Samples.from_trie(analysis.trie, uniform=uniform)
    _refuse(analysis, name, anyway)
    settings: dict[str, Any] = {"stage1": stage1, "rate": rate, "first_rate": first_rate, "n": analysis.n}
    model, values, after, signed = Path(out), None, 0, 0
    if resume and model.exists():
        values, reached = _found(model, train(samples, steps=0, **settings).reached(), steps)
        after, signed = reached.steps, reached.signed_steps
    with session().progress("training", steps, progress) as bar, session().noted() as stop:
        bar.to(after, steps)
        run = train(samples, steps=steps, start=values, after=after, progress=bar.to, stop=stop, **settings)
    if run.event:
        raise ValueError(
            f"{name}: the stage-2 gradient is exactly 0 after {run.steps:,} steps: the sentences' gradients "
            "cancel exactly"
        )
    reached = run.reached(before=signed)
    run.predictor.save(model, reached=reached)
    resume_command = None
    if reached.steps < steps:
        given = {
            "--steps": (steps, STEPS),
            "--stage1": (stage1, STEPS),
            "--rate": (rate, None),
            "--first-rate": (first_rate, None),
            "--max-length": (sentences.max_length, MAX_LENGTH),
            "--punctuation": (punctuation, KEEP),
        }
        flags = {"--uniform": uniform, "--repair": repair, "--anyway": anyway}
        again = ["hardmax", "ntp", "train", name, "--out", str(model), "--resume"]
        again += [word for option, (v, usual) in given.items() if v != usual for word in (option, str(v))]
        resume_command = shlex.join([*again, *(option for option, wanted in flags.items() if wanted)])
    result = NextTokenTraining(run, analysis, str(model), reached, steps, resume_command)
    for remark in result.remarks:
        session().say(remark)
    return result


def _found(model: Path, wanted: Reached, steps: int) -> tuple[Any, Reached]:
    """Return the values of W_kq in a model and how far it came, if that is on the way of this command."""
    from hardmax.nexttoken.predict import load_reached

    predictor, reached = load_reached(model)
    if reached is None:
        raise ValueError(f"`resume`: {model} does not record how it was trained; train without `resume`")
    differences = reached.differs_from(wanted)
    if differences:
        raise ValueError(
            f"`resume`: {model} was trained with different values of: {', '.join(differences)}; "
            "pass the same values, or train without `resume`"
        )
    if reached.steps > steps:
        raise ValueError(
            f"`resume`: {model} holds {reached.steps:,} steps already; pass `steps={reached.steps}` or more"
        )
    return predictor.values, reached


def _refuse(analysis: Analysis, name: str, anyway: bool) -> None:
    if analysis.legal or anyway:
        return
    repaired = nexttoken.analyze(analysis.trie, repair=True)
    if repaired.legal:
        count, first = len(repaired.repaired), repaired.words(repaired.repaired[:1])
        raise ValueError(
            f"{name} is not realizable: tokens that begin no sentence: {count:,}, such as {first[0]!r}; "
            "`repair=True` gives them a next token"
        )
    kinds = ", ".join(NAMES[each.kind] for each in analysis.violations)
    raise ValueError(
        f"{name} is not realizable ({kinds}); see hardmax ntp check, train on the part that its option "
        "save_realizable writes, or pass `anyway=True`"
    )


def _condition(name: str, step: float, bound: float) -> dict[str, Any]:
    unknown = "the bound is not known" if math.isnan(bound) else "there is no bound"
    status = "complete" if math.isfinite(bound) else unknown
    return {"condition": name, "step": step, "bound": bound, "holds": step <= bound, "status": status}
