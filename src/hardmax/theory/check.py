"""Check: one statement held against one problem, and the table of all statements that can be."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from typing import Any, Literal

from hardmax.theory.telling import html, paragraph

Verdict = Literal["holds", "fails", "vacuous", "not applicable", "undecided"]
Label = Literal["proved", "derived", "measured", "conjecture"]
Reading = Literal["corrected", "paper"]

# Importing one of these folders enters its statements into the table.
PAPERS = ("paper_a", "paper_b", "paper_c")


@dataclass(frozen=True)
class Hypothesis:
    """One condition of a statement, tested on the data; ``holds`` is None if it could not be decided.

    ``erratum`` names the erratum that adds the condition; None if the paper states it itself.

    >>> from hardmax.theory import Hypothesis
    >>> Hypothesis("n = 1", holds=False, measured=2).holds
    False
    """

    id: str
    holds: bool | None
    measured: Any = None
    erratum: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What the function of a statement hands back; the verdict follows from it by one rule.

    ``slack`` is how far the claim is from failing, in units of its bound: negative exactly if it fails.
    ``paper_slack`` is the same for the paper's own wording where that differs from the corrected one, and
    ``paper_vacuous`` says that this wording claims nothing here although the corrected one does.
    """

    hypotheses: tuple[Hypothesis, ...] = ()
    slack: float | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)
    witness: Any = None
    vacuous: bool = False
    paper_slack: float | None = None
    paper_vacuous: bool = False


@dataclass(frozen=True)
class Statement:
    """A lemma, theorem, assumption or conjecture: its label says how it is known.

    >>> from hardmax.theory import checks
    >>> checks()["B-THM-L4"].label
    'proved'
    """

    id: str
    title: str
    label: Label
    claim: str
    errata: tuple[str, ...]
    test: Callable[..., Outcome]


@dataclass(frozen=True)
class Check:
    """The verdict on one statement for one problem, with everything it rests on.

    ``verdict``: "holds" or "fails" (every hypothesis is met), "vacuous" (met, but the claim says nothing
    here), "not applicable" (a hypothesis is not met) or "undecided". ``slack`` is negative exactly if the
    claim fails. ``paper_verdict`` is that of the paper's own wording where an erratum changes it.

    >>> import hardmax as hm
    >>> from hardmax.theory import check
    >>> found = check("B-ASM-B", hm.data.named("B-FIG-1b"))
    >>> found.verdict, found.witness
    ('fails', [0, 1, 2])
    """

    id: str
    title: str
    instance: str
    label: Label
    hypotheses: tuple[Hypothesis, ...]
    claim: str
    measured: Mapping[str, Any]
    verdict: Verdict
    slack: float | None
    witness: Any
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

    def __str__(self) -> str:
        return paragraph(self)

    def _repr_html_(self) -> str:
        return html(self)


_STATEMENTS: dict[str, Statement] = {}


def statement(
    id: str, title: str, claim: str, *, label: Label = "proved", errata: tuple[str, ...] = ()
) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Enter the decorated function, from a problem to an Outcome, into the table under ``id``."""

    def enter(test: Callable[..., Outcome]) -> Callable[..., Outcome]:
        _STATEMENTS[id] = Statement(id, title, label, claim, errata, test)
        return test

    return enter


def checks() -> dict[str, Statement]:
    """All statements that can be checked, by id.

    >>> from hardmax.theory import checks
    >>> checks()["B-THM-L10"].title
    'Lemma 10: few directional neighbours'
    """
    for name in PAPERS:
        import_module(f"hardmax.theory.{name}")
    return dict(sorted(_STATEMENTS.items(), key=lambda entry: _order(entry[0])))


def statement_of(id: str) -> Statement:
    """The statement of that id; a ValueError names the ids that look like it."""
    table = checks()
    if id in table:
        return table[id]
    near = difflib.get_close_matches(id.upper(), table, n=5, cutoff=0.5) or list(table)
    raise ValueError(f"no check is called {id}; near it are {', '.join(near)}")


def check(
    id: str,
    subject: Any,
    *evidence: Any,
    reading: Reading = "corrected",
    instance: str = "",
    **options: Any,
) -> Check:
    """Test a statement on a problem, or on the dataset its paper is about.

    ``evidence`` and ``options`` are those of the statement's own function.

    ``reading="paper"`` judges the paper's own wording where an erratum changes it: a hypothesis that only the
    erratum adds does not then excuse a claim that fails.

    >>> import hardmax as hm
    >>> from hardmax.theory import check
    >>> opposed = hm.Problem.from_scores([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [1.0, 0.0]])
    >>> check("B-THM-2", opposed).verdict, check("B-THM-2", opposed, reading="paper").verdict
    ('not applicable', 'fails')
    """
    found = statement_of(id)
    asked = signature(found.test)
    try:
        asked.bind(subject, *evidence, **options)
    except TypeError as error:
        named = (f"{p.name}=..." if p.kind is p.KEYWORD_ONLY else p.name for p in asked.parameters.values())
        raise ValueError(f"{id}: {error}; ask check({id!r}, {', '.join(named)})") from None
    outcome = found.test(subject, *evidence, **options)
    paper = _paper_verdict(outcome)
    if reading == "paper" and paper is None:
        raise ValueError(f"reading: {id} has no reading of the paper's own here; ask for the corrected one")
    judged = _verdict(outcome.hypotheses, outcome.slack, outcome.vacuous)
    return Check(
        id=id, title=found.title, instance=instance, label=found.label, hypotheses=outcome.hypotheses,
        claim=found.claim, measured=outcome.measured, errata=found.errata, reading=reading,
        verdict=paper if reading == "paper" and paper is not None else judged,
        slack=outcome.paper_slack if reading == "paper" else outcome.slack,
        witness=outcome.witness, paper_verdict=paper,
    )  # fmt: skip


def unmet(hypotheses: Iterable[Hypothesis]) -> bool:
    """Whether a condition fails or is open, so that nothing need be measured."""
    return any(not h.holds for h in hypotheses)


def unsaid(hypotheses: Iterable[Hypothesis]) -> Outcome:
    """The outcome where nothing is measured: a condition is not met, or no token competes."""
    met = tuple(hypotheses)
    return Outcome(met) if unmet(met) else Outcome(met, 0.0, vacuous=True)


def _verdict(hypotheses: tuple[Hypothesis, ...], slack: float | None, vacuous: bool) -> Verdict:
    if any(h.holds is False for h in hypotheses):
        return "not applicable"
    if any(h.holds is None for h in hypotheses) or slack is None or math.isnan(slack):
        return "undecided"
    if slack < 0:
        return "fails"
    return "vacuous" if vacuous else "holds"


def _paper_verdict(outcome: Outcome) -> Verdict | None:
    if outcome.paper_slack is None:
        return None
    own = tuple(h for h in outcome.hypotheses if h.erratum is None)
    return _verdict(own, outcome.paper_slack, outcome.vacuous or outcome.paper_vacuous)


def _order(id: str) -> tuple[str, str, int, str]:
    """Sort B-THM-L2 before B-THM-L10."""
    paper, kind, rest = id.split("-", 2)
    digits = "".join(c for c in rest if c.isdigit())
    return paper, kind, int(digits or 0), rest
