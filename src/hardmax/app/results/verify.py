"""`verify`: the verdict on each statement, on built-in instances or on your own data."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from inspect import signature
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardmax._lib.arguments import check_arguments
from hardmax._lib.json import attributes
from hardmax._lib.result import Result
from hardmax._lib.terminal import Page, command_line, ending, grid
from hardmax.app.cli.errors import none_lost
from hardmax.app.results.session import session

if TYPE_CHECKING:
    from hardmax.papers.checking.check import Check, Verdict
    from hardmax.papers.checking.instances import Instance
    from hardmax.problem import Problem


@dataclass(frozen=True, eq=False)
class StatementVerdict:
    """A check and the verdict that is expected of it, None for your own data.

    >>> import hardmax as hm
    >>> [(entry.check.verdict, entry.expected, entry.good) for entry in hm.verify("B-ASM-B").checks]
    [('holds', 'holds', True), ('fails', 'fails', True)]
    """

    check: Check
    expected: Verdict | None
    advice: str | None = None  # on your own data, where a condition is not met

    @property
    def good(self) -> bool:
        """Whether the verdict is as expected; without an expectation, whether it supports the statement."""
        verdict = self.check.verdict
        return verdict not in ("fails", "refuted") if self.expected is None else verdict == self.expected

    def paragraph(self) -> str:
        """Return the check in words, then the advice."""
        import textwrap

        from hardmax.papers.checking.check import WIDTH

        if self.advice is None:
            return str(self.check)
        lines = textwrap.wrap(f"Advice: {self.advice}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        return "\n".join([str(self.check), *lines])

    def fields(self) -> dict[str, Any]:
        """Return an element of `checks` in the JSON."""
        check, status = self.check, "complete"
        if check.slack is None or not math.isfinite(check.slack):
            status = "the slack was not measured" if check.slack is None else f"the slack is {check.slack}"
        names = ("id", "instance", "verdict", "slack", "witness", "kind", "proof", "paper_verdict", "errata")
        hypotheses = [asdict(hypothesis) for hypothesis in check.hypotheses]
        return {
            **attributes(check, *names, "label"),
            "hypotheses": [{key: h[key] for key in h if key != "erratum"} for h in hypotheses],
            "expected": self.expected,
            "status": status,
            "advice": self.advice,
        }


@dataclass(frozen=True, eq=False, repr=False)
class VerifyResult(Result):
    """All checks, ``on`` the name of your own data if there is one, and ids that an interrupt has left.

    >>> import hardmax as hm
    >>> print(hm.verify(["B-ASM-B"]))
    id       on        verdict  expected  slack
    B-ASM-B  B-FIG-1a  holds    holds     1
    B-ASM-B  B-FIG-1b  fails    fails     -1
    2 of 2 verdicts as expected
    """

    schema: ClassVar[str] = "hardmax.verify/2"

    checks: tuple[StatementVerdict, ...]
    on: str | None = None
    remaining: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 if every verdict is as expected, 1 if one is not, 3 if one is undecided, 130 if some remain."""
        decided = [entry for entry in self.checks if entry.check.verdict != "undecided"]
        wrong = not all(entry.good for entry in decided)
        incomplete = len(decided) < len(self.checks)
        return ending(interrupted=bool(self.remaining), wrong=wrong, incomplete=incomplete)

    @property
    def interruption(self) -> str | None:
        """After an interrupt: the command that checks the remaining statements."""
        again = command_line("verify", *self.remaining, on=self.on)
        return f"interrupted; to go on: {again}" if self.remaining else None

    @property
    def headline(self) -> str:
        """The number of verdicts as expected, or the verdicts on your own data."""
        if self.on is not None:
            return ", ".join(f"{entry.check.id} {entry.check.verdict}" for entry in self.checks)
        good = sum(entry.good for entry in self.checks)
        return f"{good} of {len(self.checks)} verdicts as expected"

    def records(self) -> list[dict[str, Any]]:
        """Return a row per check."""
        names = ("id", "instance", "verdict", "expected", "slack")
        return [{name: entry.fields()[name] for name in names} for entry in self.checks]

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {"checks": [entry.fields() for entry in self.checks]}

    def table(self) -> Page:
        """Return what `hardmax verify` prints: a table, or for your own data a paragraph per statement."""
        if self.on is not None:
            return "\n\n".join(entry.paragraph() for entry in self.checks)
        rows = []
        for entry in self.checks:
            check = entry.check
            unmet = [h.id for h in check.hypotheses if not h.holds]
            instance = check.instance + (f"\nnot met: {', '.join(unmet)}" if unmet else "")
            slack = "" if check.slack is None else f"{check.slack:.3g}"
            rows.append((check.id, instance, check.verdict, entry.expected or "", slack))
        styles = ["" if entry.good else "bold red" for entry in self.checks]
        names = ("id", "on", "verdict", "expected", "slack")
        return [grid(names, rows, styles, wrapped=["on"]), self.headline]


@check_arguments
def verify(
    ids: str | Iterable[str] | None = None,
    *,
    on: Any = None,
    reading: Literal["corrected", "paper"] = "corrected",
    given: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> VerifyResult:
    """Test the papers' statements on examples or on your own data.

    Args:
        ids: Statements such as B-THM-3; by default all.
        on: File of your own data: a problem, texts with labels, or sentences, as the statement requires. In
            Python also a `Problem`, a `Corpus` or sentences.
        reading: With `on`, test the statement as corrected or as printed in the paper.
        given: With `on`, an extra argument of the statement, for example selection=[0,1].
        progress: Called with the number of instances done and of all instances.

    See also:
        `hm.statements` lists what can be verified, `hm.check_statement` tests one statement in Python.

    >>> import hardmax as hm
    >>> hm.verify("B-THM-L9").exit_code
    0
    >>> [entry.check.verdict for entry in hm.verify("B-ASM-B", on=hm.data.example("B-FIG-1b")).checks]
    ['fails']
    """
    from hardmax.papers.checking.instances import instances, own_instances

    ids = [ids] if isinstance(ids, str) else ids
    if on is None and (given or reading == "paper"):
        raise ValueError(f"`{'given' if given else 'reading'}` requires `on`")
    name: str | None = None
    if on is None:
        tests = instances(ids)
    else:
        tests = [replace(t, reading=reading, options=given or {}) for t in own_instances(ids or (), on)]
        name = os.fspath(on) if isinstance(on, str | os.PathLike) else "own data"
    verdicts: list[StatementVerdict] = []
    with session().progress("verifying", len(tests), progress) as bar:
        try:
            for test in tests:
                with none_lost():
                    check = test.run()
                    advice = None if on is None else _advice(test, check, on)
                    verdicts.append(StatementVerdict(check, test.expected, advice))
                if test.expected not in (None, check.verdict):
                    session().say(f"{test.id} on {test.name}: {check.verdict}, expected {test.expected}")
                bar.advance()
        except KeyboardInterrupt:
            if not verdicts:
                raise
            session().keep("stopping; the results so far follow")
    remaining = dict.fromkeys(test.id for test in tests[len(verdicts) :])
    return VerifyResult(tuple(verdicts), name, tuple(remaining))


def separating(problem: Problem, seconds: float = 2.0) -> tuple[int, ...] | None:
    """Return a feasible selection, one that attracts if there is one; None if none is found in time.

    >>> import hardmax as hm
    >>> from hardmax.app.results.verify import separating
    >>> separating(hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [2.0, 0.0]]))
    (0, 1)
    """
    from hardmax.directions.enumerate import attractors, selections

    searches = (search(problem, seconds=seconds) for search in (attractors, selections))
    return next((entry.selection for entry in chain.from_iterable(searches)), None)


def _advice(test: Instance, check: Check, on: Any) -> str | None:
    """Suggest a selection that separates, where the tested one does not, and how to pass it."""
    from hardmax.papers.checking.check import statement_of

    unmet = {h.id for h in check.hypotheses if h.holds is False}
    takes = "selection" in signature(statement_of(test.id).test).parameters
    if not ("best tokens separable" in unmet or ("selection separable" in unmet and takes)):
        return None
    tested = "the given tokens" if "selection" in test.options else "the best tokens"
    tokens = separating(test.subject())
    if tokens is None:
        return f"{tested} cannot be separated, and no selection was found that can."
    if isinstance(on, str | os.PathLike):
        option = f"--given selection={json.dumps(tokens, separators=(',', ':'))}"
        other = f"hardmax verify B-THM-3 --on {shlex.quote(os.fspath(on))} {option}"
    else:
        option = f'given={{"selection": {list(tokens)}}}'
        other = f'hm.verify("B-THM-3", on=problem, {option})'
    advice = f"{tested} cannot be separated; tokens {list(tokens)} can."
    if takes:
        return f"{advice} To test the statement there, add {option}"
    return f"{advice} {test.id} is about the best tokens; for a selection, run: {other}"
