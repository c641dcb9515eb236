"""Check: one statement held against one problem, and the table of all statements that can be."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, Literal

import numpy as np

from hardmax._lib.arguments import WrongType, check_arguments
from hardmax._lib.notebook import table
from hardmax.papers.checking.proof import as_slack
from hardmax.papers.registry import PAPERS, Registry, places
from hardmax.problem import Problem
from hardmax.problem.readouts import ScoresMove

WIDTH = 79
LONGEST = 60  # characters of one measured value
MEASURED = 6  # values that are printed; the others are in `measured`

MEANING = {
    "holds": "the claim was tested here and holds",
    "fails": "every condition is met and the claim fails",
    "vacuous": "the claim says nothing here",
    "not applicable": "a condition is not met, so nothing is claimed",
    "undecided": "what was computed does not decide it",
    "consistent": "nothing here contradicts the conjecture",
    "refuted": "this is a counterexample to the conjecture",
}


def paragraph(check: Check) -> str:
    """Return the check in sentences, each line at most 79 characters."""
    where = f" on {check.instance}" if check.instance else ""
    wording = ", in the paper's own wording" if check.reading == "paper" else ""
    parts = [f"{check.id}, {check.title}{where}{wording}: {check.verdict} ({MEANING[check.verdict]})."]
    groups = {
        "Not met": [f"{h.id} (measured {short(h.measured)})" for h in check.hypotheses if h.holds is False],
        "Not decided": [h.id for h in check.hypotheses if h.holds is None],
        "Met": [h.id for h in check.hypotheses if h.holds],
    }
    conditions = " ".join(f"{name}: {'; '.join(ids)}." for name, ids in groups.items() if ids)
    parts += [f"Claim: {check.claim}", conditions]
    if check.slack is not None and check.verdict != "not applicable":
        parts.append(f"Slack: {check.slack:.4g} (negative if measured to fail).")
    if check.proof:
        parts.append(f"Proof: {check.proof}.")
    if check.measured:
        shown = [f"{name} = {short(value)}" for name, value in list(check.measured.items())[:MEASURED]]
        more = len(check.measured) - len(shown)
        parts.append(f"Measured: {'; '.join(shown)}{f'; and {more} more' if more else ''}.")
    if check.witness is not None:
        parts.append(f"Witness: {short(check.witness)}.")
    if check.paper_verdict not in (None, check.verdict):
        parts.append(f"In the paper's own wording: {check.paper_verdict}.")
    if check.errata:
        parts.append(f"Errata: {', '.join(check.errata)}.")
    return "\n".join(textwrap.fill(part, WIDTH, subsequent_indent="  ") for part in parts if part)


def html(check: Check) -> str:
    """Return the check as an HTML table, with a row for each condition."""
    rows: list[tuple[str, str, str]] = [("verdict", check.verdict, MEANING[check.verdict])]
    rows.append(("claim", check.claim, "" if check.slack is None else f"slack {check.slack:.4g}"))
    words = {True: "met", False: "not met", None: "not decided"}
    rows += [(f"condition {h.id}", words[h.holds], short(h.measured)) for h in check.hypotheses]
    rows += [(name, short(value), "") for name, value in list(check.measured.items())[:MEASURED]]
    return table(f"{check.id}, {check.title}", ["", "", "measured"], rows)


def short(value: Any) -> str:
    """Return a value in a few characters."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        text = ", ".join(f"{name}: {short(item)}" for name, item in value.items())
    elif isinstance(value, (list, tuple)):
        text = ", ".join(map(short, value))
    else:
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


Verdict = Literal["holds", "fails", "vacuous", "not applicable", "undecided", "consistent", "refuted"]
Label = Literal["proved", "derived", "measured", "conjecture"]
Kind = Literal["finite", "limit", "existential"]
Reading = Literal["corrected", "paper"]
Number = Any  # float, Fraction or flint.arb, or a pair with its proof; None where nothing was measured


@dataclass(frozen=True)
class Hypothesis:
    """One condition of a statement, tested on the data; ``holds`` is None if it could not be decided.

    ``erratum`` names the erratum that adds the condition; None if the paper states it itself.

    >>> from hardmax.papers.checking.check import Hypothesis
    >>> Hypothesis("n = 1", holds=False, measured=2).holds
    False
    """

    id: str
    holds: bool | None
    measured: Any = None
    erratum: str | None = None

    def __post_init__(self) -> None:
        # np.False_ is not False, and verdicts compare by identity
        if self.holds is not None:
            object.__setattr__(self, "holds", bool(self.holds))


@dataclass(frozen=True)
class Outcome:
    """The result of the function of a statement; the verdict follows from it.

    ``slack`` is how far the claim is from failing, in units of its bound: negative exactly if it fails.
    ``proof`` names the evidence that a negative slack is more than a measurement: the arithmetic in which the
    witness was evaluated again, or the certificate of another limit. Without one nothing fails; a slack that
    is a Fraction or a ball (`flint.arb`) is its own proof, except of a limit. A slack can also be the pair of
    both that `settle_slack` returns.
    ``paper_slack`` and ``paper_proof`` are the same for the paper's own wording where that differs from the
    corrected one; ``paper_vacuous`` means that only this wording claims nothing here.

    >>> from hardmax.papers.checking.check import Outcome
    >>> Outcome(slack=0.5, measured={"cosine": 0.995}).proof is None
    True
    """

    hypotheses: Sequence[Hypothesis] = ()
    slack: Number = None
    measured: Mapping[str, Any] = field(default_factory=dict)
    witness: Any = None
    vacuous: bool = False
    proof: str | None = None
    paper_slack: Number = None
    paper_vacuous: bool = False
    paper_proof: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "hypotheses", tuple(self.hypotheses))
        for which in ("", "paper_"):
            settled = getattr(self, f"{which}slack")
            if isinstance(settled, tuple):
                for name, value in zip(("slack", "proof"), settled, strict=True):
                    object.__setattr__(self, which + name, value)

    def in_reading(self, reading: Reading) -> Outcome:
        """Return the outcome of the corrected statement, or of the paper's own wording."""
        if reading == "corrected":
            return self
        printed = [h for h in self.hypotheses if h.erratum is None]
        vacuous = self.vacuous or self.paper_vacuous
        return replace(
            self, hypotheses=printed, slack=self.paper_slack, vacuous=vacuous, proof=self.paper_proof
        )


@dataclass(frozen=True)
class Statement:
    """A lemma, theorem, assumption or conjecture; ``label`` is how it is known, ``kind`` what refutes it.

    A *finite* statement is an inequality at given data: it fails where its witness and its hypotheses hold
    in rational or ball arithmetic. A *limit* fails only by a proof that the limit is another one; being far
    from it is not such a proof, however late. An *existential* statement ("from some radius on") never fails.

    ``data`` is the kind of data that a hunt draws ("scores", "tokens", "queries", "labels", "corpus" or
    "sentences"), ``draws`` are the options that it draws with them, and ``hunt`` the options that it fixes.
    Empty ones follow from the signature of ``test``.

    >>> from hardmax.papers.checking.check import statements
    >>> statements()["B-THM-L4"].label, statements()["B-THM-1"].kind, statements()["B-THM-3"].kind
    ('proved', 'limit', 'existential')
    """

    id: str
    title: str
    label: Label
    kind: Kind
    claim: str
    errata: tuple[str, ...]
    test: Callable[..., Outcome]
    data: str = ""
    draws: tuple[str, ...] = ()
    hunt: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """The verdict on one statement for one problem, with its evidence.

    ``verdict``: "holds" or "fails" (every hypothesis is met), "vacuous" (met, but the claim says nothing
    here), "not applicable" (a hypothesis is not met) or "undecided"; of a conjecture, which never
    holds, "consistent" or "refuted". ``slack`` is negative where the claim was measured to fail, ``proof``
    then names the proof; without a proof the verdict is "undecided". ``paper_verdict`` is that of the
    paper's own wording where an erratum changes it.

    >>> import hardmax as hm
    >>> from hardmax.papers.checking.check import check_statement
    >>> check = check_statement("B-ASM-B", hm.data.example("B-FIG-1b"))
    >>> check.verdict, check.witness
    ('fails', [0, 1, 2])
    """

    id: str
    title: str
    instance: str
    label: Label
    kind: Kind
    hypotheses: tuple[Hypothesis, ...]
    claim: str
    measured: Mapping[str, Any]
    verdict: Verdict
    slack: float | None
    witness: Any
    proof: str | None
    errata: tuple[str, ...]
    reading: Reading
    paper_verdict: Verdict | None

    @property
    def holds(self) -> bool:
        """Whether the claim was tested and held, not vacuously."""
        return self.verdict == "holds"

    @property
    def vacuous(self) -> bool:
        """Whether the claim is met only because it says nothing here."""
        return self.verdict == "vacuous"

    def __repr__(self) -> str:
        return f"Check({self.id}: {self.verdict})"

    def __str__(self) -> str:
        return paragraph(self)

    def _repr_html_(self) -> str:
        return html(self)


STATEMENTS: Registry[Statement] = Registry("statement", places("statements"))
PRINTED: Registry[Statement] = Registry("printed sentence", places("printed"))


@check_arguments
def statement(
    id: str,
    title: str,
    claim: str,
    *,
    kind: Kind = "finite",
    label: Label = "proved",
    errata: tuple[str, ...] = (),
    data: str = "",
    draws: tuple[str, ...] = (),
    hunt: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Register the decorated function, from a problem to an Outcome, as a statement under ``id``.

    >>> import hardmax as hm
    >>> from hardmax.papers.checking.check import Outcome, statement
    >>> @statement("X-EXAMPLE-1", "Few tokens", "T <= 3", kind="finite", label="conjecture")
    ... def few_tokens(problem: hm.Problem) -> Outcome:
    ...     return Outcome(slack=float(3 - problem.sizes.max()), proof="counted")
    >>> hm.check_statement("X-EXAMPLE-1", hm.data.example("B-FIG-8")).verdict
    'consistent'
    """

    def enter(test: Callable[..., Outcome]) -> Callable[..., Outcome]:
        STATEMENTS.enter(id, Statement(id, title, label, kind, claim, errata, test, data, draws, hunt or {}))
        return test

    return enter


def printed(id: str, *, data: str = "") -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Enter the decorated function as a printed sentence, which only a hunt tests, by its erratum."""

    def enter(test: Callable[..., Outcome]) -> Callable[..., Outcome]:
        PRINTED.enter(id, Statement(id, id, "conjecture", "finite", id, (), test, data))
        return test

    return enter


def statements() -> dict[str, Statement]:
    """Return all statements that can be checked, by id."""
    return dict(sorted(STATEMENTS.all().items(), key=lambda entry: _order(entry[0])))


def statement_of(id: str) -> Statement:
    """Return the statement of an id; a ValueError suggests similar ids."""
    return STATEMENTS[id]


@check_arguments
def check_statement(
    id: str, data: Any, *evidence: Any, reading: Reading = "corrected", instance: str = "", **options: Any
) -> Check:
    """Test a statement of the papers on data.

    Args:
        id: The statement, such as "B-THM-2".
        data: A `Problem`, or the dataset that the statement is about.
        evidence: Further positional arguments of the statement, such as a run.
        reading: "paper" tests the statement as printed: hypotheses that an erratum adds are ignored.
        instance: Name of the data, for the report.
        options: Further keyword arguments of the statement, such as ``selection``.

    Returns:
        The verdict with the hypotheses, measured values and proof.

    See also:
        `hm.statements` finds statements by words.

    >>> import hardmax as hm
    >>> from hardmax.papers.checking.check import check_statement
    >>> opposed = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [1.0, 0.0]])
    >>> [check_statement("B-THM-2", opposed, reading=reading).verdict for reading in ("corrected", "paper")]
    ['not applicable', 'fails']
    """
    stated = statement_of(id)
    id, parameters = stated.id, signature(stated.test)
    try:
        parameters.bind(data, *evidence, **options)
    except TypeError as error:
        names = [
            f"{p.name}=..." if p.kind is p.KEYWORD_ONLY else p.name for p in parameters.parameters.values()
        ]
        reason = str(error).replace("keyword-only ", "")  # in the message of Python 3.12 and newer
        raise ValueError(f"{id}: {reason}; call check_statement({id!r}, {', '.join(names)})") from None
    kind = subject_of(stated)
    if isinstance(kind, type) and kind is not Any and not isinstance(data, kind):
        raise WrongType(
            f"{id} is about a {kind.__name__}, got {type(data).__name__}; "
            f"call check_statement({id!r}, {kind.__name__.lower()}, ...)"
        )
    outcome = outcome_of(stated, data, *evidence, **options)
    if reading == "paper" and outcome.paper_slack is None:
        raise ValueError(f"reading: {id} has no wording of the paper here; use reading='corrected'")
    as_read = outcome.in_reading(reading)
    return Check(
        id=id,
        title=stated.title,
        instance=instance,
        label=stated.label,
        kind=stated.kind,
        hypotheses=tuple(outcome.hypotheses),
        claim=stated.claim,
        measured=outcome.measured,
        errata=stated.errata,
        reading=reading,
        verdict=verdict_of(stated, outcome, reading),
        slack=as_read.slack,
        witness=outcome.witness,
        proof=as_read.proof,
        paper_verdict=None if outcome.paper_slack is None else verdict_of(stated, outcome, "paper"),
    )


def outcome_of(stated: Statement, subject: Any, *evidence: Any, **options: Any) -> Outcome:
    """Return the outcome of a statement on data, with slacks as floats and the proofs that they carry.

    A statement about scores says nothing where they move with the attention. A distance from a limit at a
    finite time proves nothing, in whatever arithmetic.
    """
    paper, plain = PAPERS.get(stated.id[0]), True
    if isinstance(subject, Problem):
        plain = subject.weights is None and subject.counts is None
    if paper is not None and not (paper.weighted or plain):
        return Outcome((Hypothesis("equal weights, no counts", False),))
    try:
        outcome = stated.test(subject, *evidence, **options)
    except ScoresMove:
        return Outcome((Hypothesis("fixed scores", False),))
    except Unmet as stop:
        return unsaid(stop.hypotheses)
    slack, proof = as_slack(outcome.slack)
    paper_slack, paper_proof = as_slack(outcome.paper_slack)
    if stated.kind == "limit":
        proof = paper_proof = None
    return replace(
        outcome,
        slack=slack,
        proof=outcome.proof or proof,
        paper_slack=paper_slack,
        paper_proof=outcome.paper_proof or paper_proof,
    )


def subject_of(stated: Statement) -> Any:
    """Return the class of data that a statement takes: the annotation of its first parameter."""
    return next(iter(signature(stated.test, eval_str=True).parameters.values())).annotation


def unmet(hypotheses: Iterable[Hypothesis]) -> bool:
    """Return whether a condition fails or is open, so that nothing need be measured."""
    return any(not h.holds for h in hypotheses)


class Unmet(Exception):
    """Ends a test whose conditions are not met, or in which nothing competes; its outcome is `unsaid`."""

    def __init__(self, hypotheses: Iterable[Hypothesis]) -> None:
        self.hypotheses = tuple(hypotheses)


class Conditions(list[Hypothesis]):
    """The conditions of a statement in the order in which they are tested."""

    def need(self, *more: Hypothesis) -> Conditions:
        """Add conditions, and end the test here if one of all is not met."""
        self.extend(more)
        if unmet(self):
            raise Unmet(self)
        return self


def need(*hypotheses: Hypothesis) -> Conditions:
    """Return the conditions if all are met, else end the test here.

    >>> from hardmax.papers.checking.check import Hypothesis, need
    >>> [h.id for h in need(Hypothesis("n = 1", True), Hypothesis("d = 2", True))]
    ['n = 1', 'd = 2']
    """
    return Conditions().need(*hypotheses)


def unsaid(hypotheses: Iterable[Hypothesis]) -> Outcome:
    """Return the outcome where nothing is measured: a condition is not met, or no token competes."""
    conditions = tuple(hypotheses)
    return Outcome(conditions) if unmet(conditions) else Outcome(conditions, 0.0, vacuous=True)


def verdict_of(stated: Statement, outcome: Outcome, reading: Reading = "corrected") -> Verdict:
    """Return the verdict on an outcome; this is the only rule for verdicts."""
    read = outcome.in_reading(reading)
    # a radius that exists by an erratum may be explicit in the paper, so that its claim can fail
    existential = stated.kind == "existential" and reading == "corrected"
    if any(h.holds is False for h in read.hypotheses):
        return "not applicable"
    if unmet(read.hypotheses) or read.slack is None or math.isnan(read.slack):
        return "undecided"
    if read.slack < 0:
        # a claim about a measurement is refuted by measuring; any other, by a proof alone
        if stated.label != "measured" and (read.proof is None or existential):
            return "undecided"
        return "refuted" if stated.label == "conjecture" else "fails"
    if read.vacuous:
        return "vacuous"
    return "consistent" if stated.label == "conjecture" else "holds"


def _order(id: str) -> tuple[bool, str, str, int, str]:
    """Sort B-THM-L2 before B-THM-L10, and a user's statements after the papers'."""
    paper, kind, rest = [*id.split("-", 2), "", ""][:3]
    digits = "".join(c for c in rest if c.isdigit())
    return id not in STATEMENTS.places, paper, kind, int(digits or 0), rest
