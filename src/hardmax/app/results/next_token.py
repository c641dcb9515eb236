"""`ntp generate`, `ntp train` and `ntp predict`: random sentences, the trained model, and its next tokens."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardmax import nexttoken
from hardmax._lib.arguments import check_arguments
from hardmax._lib.json import attributes
from hardmax._lib.reading import NotJson, parse_json
from hardmax._lib.result import Result
from hardmax._lib.terminal import Page, command_line, ending, grid, shown, spelled
from hardmax.app.results.next_token_check import LONGEST, MAX_LENGTH, NAMES
from hardmax.app.results.session import check_range, session, writable
from hardmax.data.sentences.punctuation import KEEP

if TYPE_CHECKING:
    from hardmax.data.sentences.sentences import Sentences
    from hardmax.nexttoken import Analysis, Generated, Prediction, Predictor
    from hardmax.nexttoken.predict import Reached
    from hardmax.nexttoken.training import Training

STEPS = 900
MOST_STEPS = 10**15  # years
UNCLEAR = 0.5  # a probability of the right token that deserves a word
SHOWN = 10  # most probable next tokens


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedSentences(Result):
    """Sentences that were generated with a seed, and their check; ``out`` is the file that `save` wrote.

    >>> from hardmax.app.results.next_token import generate_file
    >>> print(generate_file(vocabulary=3, rng=0))
    0 2 1 2 1
    1 0 2 1
    2 1
    """

    schema: ClassVar[str] = "hardmax.ntp-generate/1"

    seed: int
    made: Generated
    analysis: Analysis
    assumption3: bool = True
    out: str | None = None

    @property
    def exit_code(self) -> int:
        """0 if the dataset has the requested properties, 1 if not."""
        holds = self.analysis.realizable if self.assumption3 else self.analysis.legal
        return ending(wrong=not holds)

    def save(self, path: str | os.PathLike[str]) -> GeneratedSentences:
        """Write the sentences, .json as JSON; return a result with the name of the file."""
        from hardmax.data.sentences.reading import write_sentences

        write_sentences(path, self.made.text)
        return replace(self, out=os.fspath(path))

    @property
    def headline(self) -> str:
        """The number of sentences and of tokens."""
        return f"{len(self.made.sentences):,} sentences, seed {self.seed}"

    def records(self) -> list[dict[str, Any]]:
        """Return a row per sentence."""
        return [{"sentence": " ".join(map(str, sentence))} for sentence in self.made.sentences]

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {
            "seed": self.seed,
            "out": self.out,
            "realizable": self.analysis.realizable,
            "violations": [attributes(v, "kind", "count") for v in self.analysis.violations],
            "sentences": self.made.sentences,
            "collocation": self.made.n,
            "lags": self.made.lag,
            "samples": self.analysis.samples,
            "longest": self.analysis.text.longest,
        }

    def table(self) -> Page:
        """Return what `hardmax ntp generate` prints: sentences of token numbers, on one line each."""
        from rich.console import Group

        return Group(*(row["sentence"] for row in self.records()))  # not folded: it may become a file


@check_arguments
def generate_file(
    out: str | os.PathLike[str] | None = None,
    *,
    vocabulary: int = 20,
    permutation: Literal["cycle", "derangement", "uniform"] = "cycle",
    lag0: float = 0.5,
    max_lag: int = 3,
    max_length: int = 8,
    truncate: bool = False,
    assumption3: bool = True,
    multiplicity: int = 1,
    rng: int = 0,
) -> GeneratedSentences:
    """Generate a random realizable dataset.

    Args:
        out: File that receives the sentences, one per line, or as JSON if it ends in .json.
        vocabulary: Number of tokens.
        permutation: Permutation of next tokens: one cycle, a derangement, or uniformly random.
        lag0: Probability that a query has lag 0.
        max_lag: Largest lag; the other lags are uniform from 1 to this.
        max_length: Length of the longest raw sentence.
        truncate: Cut each sentence at a random length.
        assumption3: End sentences before Assumption 3 is violated.
        multiplicity: Repeat each sentence a random number of times, from 1 to this.
        rng: Random seed.

    See also:
        `hm.nexttoken.generate` returns the sentences without a check.

    >>> from hardmax.app.results.next_token import generate_file
    >>> result = generate_file(vocabulary=50, rng=1, max_length=6)
    >>> result.exit_code, result.json()["longest"]
    (0, 6)
    """
    check_range(1, 2_000_000, vocabulary=vocabulary)
    check_range(1, 10_000, max_lag=max_lag)
    check_range(2, 10_000, max_length=max_length)
    check_range(1, 1_000_000, multiplicity=multiplicity)
    writable("out", out)
    generated = nexttoken.generate(
        vocabulary,
        permutation=permutation,
        lag0=lag0,
        max_lag=max_lag,
        max_length=max_length,
        truncate=truncate,
        assumption3=assumption3,
        multiplicity=multiplicity,
        rng=rng,
    )
    result = GeneratedSentences(rng, generated, nexttoken.analyze(generated.text), assumption3)
    if out is not None:
        result = result.save(out)
        session().say(f"{len(generated.sentences):,} sentences written to {out}")
    return result


@dataclass(frozen=True, eq=False, repr=False)
class NextTokenTraining(Result):
    """A training and the file of its model; ``resume_command`` is the shell command that continues it.

    >>> import tempfile
    >>> from hardmax.app.results.next_token import predict_next
    >>> from hardmax.app.results.next_token import train_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = train_file(["S V O P", "V O P", "O P P", "P S V"], f"{folder}/model.npz")
    ...     answer = predict_next(result.model, "O S P")
    >>> result.reached.steps, result.exit_code, answer.prediction.next(1)[0][0]
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
        """0, or 130 if steps remain."""
        return ending(interrupted=self.reached.steps < self.steps)

    @property
    def interruption(self) -> str | None:
        """After an interrupt: the finished steps, and the command that resumes."""
        message = (
            f"interrupted after {self.reached.steps:,} of {self.steps:,} steps; "
            f"{self.model} holds the model so far; go on with: {self.resume_command}"
        )
        return message if self.resume_command is not None else None

    @property
    def headline(self) -> str:
        """The steps and the loss."""
        return f"{self.reached.steps:,} steps, loss {self.run.loss:.6g}, model {self.model}"

    @property
    def remarks(self) -> list[str]:
        """Warnings about step sizes and lengths of training."""
        from hardmax.problem.readouts import best_loss

        remarks = [
            f"the step {step:g} is above the bound of the condition {name}, {bound:g}"
            for name, (step, bound) in self.run.conditions.items()
            if not step <= bound
        ]
        top = math.exp(-best_loss(self.run.W_ov.V, self.run.W_ov.margin or 0.0))
        if top < UNCLEAR:
            remarks.append(
                f"after {self.run.stage_1_steps:,} steps of stage 1 the right next token has a probability "
                f"of at most {top:.2g}, however long stage 2 is; a larger `stage1` or `first_rate` raises it"
            )
        return remarks

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        run, reached = self.run, self.reached
        reasons = [
            (reached.steps < self.steps, f"interrupted after {reached.steps:,} of {self.steps:,} steps"),
            (not run.pairs.n, "attention has nothing to learn from these sentences"),
            (run.norm_kq == 0.0, "misalignment_kq is undefined before the first step"),
            (run.star.values is None, run.star.reason),
            (
                math.isnan(run.log_excess_loss),
                "excess_loss is not known: attention alone cannot fit the data",
            ),
        ]
        names = ("loss", "excess_loss", "log_excess_loss", "norm_ov", "norm_kq")
        return {
            "steps": reached.steps,
            "stage1": run.stage_1_steps,
            "eta": run.rate,
            "eta0": run.first_rate,
            "realizable": not self.analysis.violations,
            "repaired": self.analysis.words(self.analysis.repaired),
            **attributes(run, *names, "misalignment_ov", "misalignment_kq"),
            "signed_steps": reached.signed_steps,
            "conditions": [_condition(name, *pair) for name, pair in run.conditions.items()],
            "model": self.model,
            "status": "; ".join(reason for holds, reason in reasons if holds) or "complete",
        }

    def table(self) -> Page:
        """Return what `hardmax ntp train` prints."""
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
        rows = []
        for key, value in self.fields().items():
            if isinstance(value, float):
                value = "not known" if math.isnan(value) else f"{value:.6g}"
            if key in labels:
                rows.append((labels[key], str(value)))
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
    >>> from hardmax.app.results.next_token import train_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = train_file(["a b", "b a"], f"{folder}/model.npz", steps=0)
    >>> result.json()["status"]
    'attention has nothing to learn from these sentences; misalignment_kq is undefined before the first step'
    """
    from hardmax._lib import expect
    from hardmax.data.sentences.samples import as_sentences
    from hardmax.nexttoken.training import train

    for option, value in (("rate", rate), ("first_rate", first_rate)):
        if value is not None:
            expect.positive(option, value)
    check_range(0, MOST_STEPS, steps=steps)
    check_range(1, MOST_STEPS, stage1=stage1)
    check_range(2, LONGEST, max_length=max_length)
    writable("out", out, data)
    name = "sentences"
    if isinstance(data, str | os.PathLike):
        name = os.fspath(data)
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
    model, start, before = Path(out), None, None
    if resume and model.exists():
        start, before = _resumed(model, train(samples, steps=0, **settings).reached(), steps)
    after, signed = (0, 0) if before is None else (before.steps, before.signed_steps)
    with session().progress("training", steps, progress) as bar, session().noted() as stop:
        bar.to(after, steps)
        run = train(samples, steps=steps, start=start, after=after, progress=bar.to, stop=stop, **settings)
    if run.event:
        raise ValueError(
            f"{name}: the stage-2 gradient is exactly 0 after {run.steps:,} steps: the sentences' gradients "
            "cancel exactly"
        )
    reached = run.reached(before=signed)
    run.predictor.save(model, reached=reached)
    resume_command = None
    if reached.steps < steps:
        values = {
            "steps": (steps, STEPS),
            "stage1": (stage1, STEPS),
            "rate": (rate, None),
            "first_rate": (first_rate, None),
            "max_length": (sentences.max_length, MAX_LENGTH),
            "punctuation": (punctuation, KEEP),
        }
        options = {option: value for option, (value, default) in values.items() if value != default}
        options |= {"uniform": uniform, "repair": repair, "anyway": anyway}
        resume_command = command_line("ntp", "train", name, out=model, resume=True, **options)
    result = NextTokenTraining(run, analysis, str(model), reached, steps, resume_command)
    for remark in result.remarks:
        session().say(remark)
    return result


def _resumed(model: Path, reached: Reached, steps: int) -> tuple[Any, Reached]:
    """Return the values of W_kq in a model and its steps, if a training like ``reached`` made it."""
    from hardmax.nexttoken.predict import load_reached

    predictor, before = load_reached(model)
    if before is None:
        raise ValueError(f"`resume`: {model} does not record how it was trained; train without `resume`")
    differences = before.differs_from(reached)
    if differences:
        raise ValueError(
            f"`resume`: {model} was trained with different values of: {', '.join(differences)}; "
            "pass the same values, or train without `resume`"
        )
    if before.steps > steps:
        raise ValueError(
            f"`resume`: {model} holds {before.steps:,} steps already; pass `steps={before.steps}` or more"
        )
    return predictor.values, before


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
    kinds = ", ".join(NAMES[violation.kind] for violation in analysis.violations)
    raise ValueError(
        f"{name} is not realizable ({kinds}); see hardmax ntp check, train on the part that its option "
        "save_realizable writes, or pass `anyway=True`"
    )


def _condition(name: str, step: float, bound: float) -> dict[str, Any]:
    unknown = "the bound is not known" if math.isnan(bound) else "there is no bound"
    status = "complete" if math.isfinite(bound) else unknown
    return {"condition": name, "step": step, "bound": bound, "holds": step <= bound, "status": status}


@dataclass(frozen=True, eq=False, repr=False)
class NextTokenPrediction(Result):
    """A sentence and the prediction of its next token.

    >>> import hardmax as hm
    >>> from hardmax.app.results.next_token import predict_next
    >>> svop = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> print(predict_next(hm.nexttoken.training.train(svop).predictor, "O S P", limit=True))
    next  probability  attended  weight  type
    P     1            O         1       optimal
    S     2.71267e-23  S         0       non-comparable
    V     2.71267e-23  P         0       non-optimal
    O     2.71267e-23
    unique: O: optimal under the last token
    """

    schema: ClassVar[str] = "hardmax.ntp-predict/1"
    row_field: ClassVar[str] = "next"

    sentence: tuple[str, ...]
    prediction: Prediction

    @property
    def headline(self) -> str:
        """The most probable next token and its probability."""
        word, probability = self.prediction.next(1)[0]
        return f"{shown(word)} with probability {probability:.6g}, {self.prediction.rule}"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        prediction = self.prediction
        return {
            "sentence": self.sentence,
            "next": [{"token": word, "probability": p} for word, p in prediction.next(SHOWN)],
            "attended": [{"token": a.word, "weight": a.weight, "type": a.type} for a in prediction.attended],
            **attributes(prediction, "rule", "reason"),
        }

    def table(self) -> Page:
        """Return what `hardmax ntp predict` prints."""
        prediction = self.prediction
        tokens = [(shown(word), f"{p:.6g}") for word, p in prediction.next(SHOWN)]
        weights = [(shown(a.word), f"{a.weight:.6g}", a.type.replace("_", "-")) for a in prediction.attended]
        rows = [(*(a or ("", "")), *(b or ())) for a, b in zip_longest(tokens, weights)]
        table = grid(("next", "probability", "attended", "weight", "type"), rows)
        return [table, f"{prediction.rule}: {spelled(prediction.reason)}"]


@check_arguments
def predict_next(
    model: Predictor | str | os.PathLike[str], sentence: str | Sequence[str], *, limit: bool = False
) -> NextTokenPrediction:
    """Predict the next token of a sentence, with the reason.

    Args:
        model: File of a model that `hardmax ntp train` wrote. In Python also a `Predictor`.
        sentence: Words separated by spaces, or a JSON list of words. In Python also a list of words.
        limit: Predict with the limit of infinitely long training.

    >>> import hardmax as hm
    >>> from hardmax.app.results.next_token import predict_next
    >>> svop = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> predict_next(hm.nexttoken.training.train(svop).predictor, ["S", "V", "P"]).prediction.rule
    'tie'
    """
    from hardmax.nexttoken.predict import Predictor

    words = sentence if not isinstance(sentence, str) else sentence.split()
    if isinstance(sentence, str):
        with suppress(NotJson):  # a JSON list can also name words that contain spaces
            listed = parse_json(sentence)
            if isinstance(listed, list) and all(isinstance(word, str) for word in listed):
                words = listed
    predictor = Predictor.load(model) if isinstance(model, str | os.PathLike) else model
    return NextTokenPrediction(tuple(words), predictor.predict([*words], limit=limit))
