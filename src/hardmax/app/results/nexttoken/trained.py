"""What `ntp train` says: how far Algorithm 1 came on sentences, and where its model is."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.arguments import check_arguments
from hardmax._lib.progress import Progress
from hardmax._lib.terminal import DONE, INTERRUPTED
from hardmax.app.results.answer import Answer
from hardmax.app.results.nexttoken.checked import MAX_LENGTH
from hardmax.data.sentences.punctuation import KEEP

if TYPE_CHECKING:
    from rich.table import Table

    from hardmax.data.sentences.sentences import Sentences
    from hardmax.nexttoken import Analysis
    from hardmax.nexttoken.model_file import Reached
    from hardmax.nexttoken.training import Training

STEPS = 900
UNCLEAR = 0.5  # a probability of the right token that deserves a word


@dataclass(frozen=True, eq=False, repr=False)
class Trained(Answer):
    """A training and the file of its model; ``goes_on`` is the command that takes the steps that are left.

    >>> import os, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = hm.answers.ntp_train(["S V O P", "V O P", "O P P", "P S V"], f"{folder}/model.npz")
    ...     told = hm.answers.ntp_predict(done.model, "O S P")
    >>> done.reached.steps, done.exit_code, told.prediction.next(1)[0][0]
    (900, 0, 'P')
    """

    schema: ClassVar[str] = "hardmax.ntp-train/1"

    run: Training
    analysis: Analysis
    model: str
    reached: Reached
    steps: int
    goes_on: str | None = None

    @property
    def exit_code(self) -> int:
        """0, or 130 if steps are left."""
        return DONE if self.reached.steps >= self.steps else INTERRUPTED

    @property
    def remarks(self) -> list[str]:
        """What a reader should know beside the numbers."""
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
                f"of at most {top:.2g}, however long stage 2 is; a larger --stage1 or --first-rate raises it"
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
        from rich.table import Table
        from rich.text import Text

        table, fields = Table(box=None, pad_edge=False, show_header=False), self.fields()
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


@check_arguments
def ntp_train(
    data: str | os.PathLike[str] | Sentences | Iterable[str | Sequence[Any]],
    model: str | os.PathLike[str],
    *,
    steps: int = STEPS,
    stage1: int = STEPS,
    rate: float | None = None,
    first_rate: float | None = None,
    uniform: bool = False,
    max_length: int = MAX_LENGTH,
    repair: bool = False,
    anyway: bool = False,
    resume: bool = False,
    punctuation: str = KEEP,
) -> Trained:
    """Train the one-layer model in two stages and write it, as `hardmax ntp train` does.

    Args:
        data: a file of sentences, or sentences as `nexttoken.analyze` takes them.
        model: the file that gets the model.
        steps, stage1: steps of stage 2 (attention) and of stage 1 (output-value matrix).
        rate, first_rate: their step sizes; 0.05/sqrt(V) and 0.2/sqrt(V) by default.
        uniform: every distinct sentence weighs the same, however frequent.
        max_length: cut longer sentences of a file.
        repair: give tokens that begin no sentence a next token.
        anyway: train on data that is not realizable too.
        resume: go on from the steps that the file of the model holds, if it exists.
        punctuation: "keep" punctuation marks at the ends of the words of a file, "split" them off as tokens
            of their own, or "strip" them.

    >>> import tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = hm.answers.ntp_train(["a b", "b a"], f"{folder}/model.npz", steps=0)
    >>> done.json()["status"]
    'attention has nothing to learn from these sentences; misalignment_kq is undefined before the first step'
    """
    from hardmax import nexttoken

    name = "sentences"
    if isinstance(data, str | os.PathLike):
        name = os.fspath(data)
        data = nexttoken.read_sentences(data, max_length=max_length, punctuation=punctuation)
    elif punctuation != KEEP:
        raise ValueError("punctuation requires a file; pass sentences whose tokens are split already")
    settings = (steps, stage1, rate, first_rate, uniform, repair, anyway, resume, punctuation)
    return Learning(data, name, Path(model), *settings).run()


class Learning:
    """A training to be run on sentences; what cannot be trained on is refused when it is made."""

    def __init__(
        self,
        data: Any,
        name: str,
        model: Path,
        steps: int = STEPS,
        stage1: int = STEPS,
        rate: float | None = None,
        first_rate: float | None = None,
        uniform: bool = False,
        repair: bool = False,
        anyway: bool = False,
        resume: bool = False,
        punctuation: str = KEEP,
    ) -> None:
        from hardmax import nexttoken
        from hardmax.nexttoken.analysis import as_trie

        trie = as_trie(data)
        self.name, self.model, self.steps = name, model, steps
        self.analysis = nexttoken.analyze(trie, repair=repair)
        self.samples = nexttoken.Samples.from_trie(trie, uniform=uniform)
        _refuse(self.analysis, name, anyway, punctuation)
        self.settings: dict[str, Any] = {
            "stage1": stage1,
            "rate": rate,
            "first_rate": first_rate,
            "n": self.analysis.n,
        }
        given = {
            "--steps": (steps, STEPS),
            "--stage1": (stage1, STEPS),
            "--rate": (rate, None),
            "--first-rate": (first_rate, None),
            "--max-length": (trie.sentences.max_length, MAX_LENGTH),
            "--punctuation": (punctuation, KEEP),
        }
        flags = {"--uniform": uniform, "--repair": repair, "--anyway": anyway}
        self.options = [
            word for option, (v, usual) in given.items() if v != usual for word in (option, str(v))
        ]
        self.options += [option for option, wanted in flags.items() if wanted]
        self.start: Any = None
        self.before: Reached | None = None
        if resume and model.exists():
            self.start, self.before = self._found()

    def run(self, progress: Progress | None = None, stop: Callable[[], bool] | None = None) -> Trained:
        """Train and write the model; ``progress(done, total)`` counts steps, and the yes of ``stop`` ends it."""
        from hardmax.nexttoken.model_file import Reached, save
        from hardmax.nexttoken.training import train

        after, signed = (self.before.steps, self.before.signed_steps) if self.before else (0, 0)
        if progress:
            progress(after, self.steps)
        run = train(
            self.samples,
            steps=self.steps,
            start=self.start,
            after=after,
            progress=progress,
            stop=stop,
            **self.settings,
        )
        if run.event:
            raise ValueError(
                f"{self.name}: the stage-2 gradient is exactly 0 after {run.steps:,} steps: the sentences' "
                "pulls cancel, so there is no direction to take"
            )
        reached = Reached.by(run, before=signed)
        save(self.model, run.predictor, reached)
        again = ["hardmax", "ntp", "train", self.name, "--out", str(self.model), "--resume", *self.options]
        goes_on = shlex.join(again) if reached.steps < self.steps else None
        return Trained(run, self.analysis, str(self.model), reached, self.steps, goes_on)

    def _found(self) -> tuple[Any, Reached]:
        """The values of W_kq in MODEL and how far it came, if that is on the way of this command."""
        from hardmax.nexttoken.model_file import Reached, load_reached
        from hardmax.nexttoken.training import train

        wanted = Reached.by(train(self.samples, steps=0, **self.settings))
        predictor, reached = load_reached(self.model)
        if reached is None:
            raise ValueError(
                f"--resume: {self.model} does not say how it was trained; train without --resume"
            )
        differences = reached.differs_from(wanted)
        if differences:
            raise ValueError(
                f"--resume: {self.model} was trained otherwise, with other values of: "
                f"{', '.join(differences)}; give the same, or train without --resume"
            )
        if reached.steps > self.steps:
            raise ValueError(
                f"--resume: {self.model} holds {reached.steps:,} steps already; "
                f"give --steps {reached.steps} or more"
            )
        return predictor.values, reached


def _refuse(analysis: Analysis, name: str, anyway: bool, punctuation: str) -> None:
    if analysis.legal or anyway:
        return
    from hardmax import nexttoken
    from hardmax.app.results.nexttoken.checked import NAMES

    mended = nexttoken.analyze(analysis.trie, repair=True)
    if mended.legal:
        count, first = len(mended.repaired), mended.words(mended.repaired[:1])
        raise ValueError(
            f"{name} is not realizable: tokens that begin no sentence: {count:,}, such as {first[0]!r}; "
            "--repair gives them a next token"
        )
    kinds = ", ".join(NAMES[each.kind] for each in analysis.violations)
    option = "" if punctuation == KEEP else f" --punctuation {punctuation}"
    check = f"hardmax ntp check {shlex.quote(name)}{option}"
    raise ValueError(
        f"{name} is not realizable ({kinds}); see {check}, train on the "
        "part that hardmax ntp check --save-realizable writes, or give --anyway"
    )


def _condition(name: str, step: float, bound: float) -> dict[str, Any]:
    unknown = "the bound is not known" if math.isnan(bound) else "there is no bound"
    status = "complete" if math.isfinite(bound) else unknown
    return {"condition": name, "step": step, "bound": bound, "holds": step <= bound, "status": status}
