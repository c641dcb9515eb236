"""`verify`: the verdict on each statement, on built-in instances or on your own data."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardmax._lib.arguments import check_arguments
from hardmax._lib.json import attributes
from hardmax._lib.result import Result
from hardmax._lib.terminal import DONE, INCOMPLETE, INTERRUPTED, NOT_AS_EXPECTED, Page, command_line, grid
from hardmax.app.results.session import session

if TYPE_CHECKING:
    from hardmax.papers.checking.check import Check, Verdict
    from hardmax.papers.checking.instances import Instance
    from hardmax.problem import Problem


@dataclass(frozen=True, eq=False)
class StatementVerdict:
    """A check and the verdict that is expected of it, None for your own data.

    >>> import hardmax as hm
    >>> [(each.check.verdict, each.expected, each.good) for each in hm.verify("B-ASM-B").checks]
    [('holds', 'holds', True), ('fails', 'fails', True)]
    """

    check: Check
    expected: Verdict | None
    advice: str | None = None  # on own data: what to do where a condition is not met

    @property
    def good(self) -> bool:
        """As expected; or, where nothing is expected, nothing that speaks against the statement."""
        if self.expected is not None:
            return self.check.verdict == self.expected
        return self.check.verdict not in ("fails", "refuted")

    def paragraph(self) -> str:
        """Return the check in words, then what to do."""
        import textwrap

        from hardmax.papers.checking.check import WIDTH

        if self.advice is None:
            return str(self.check)
        lines = textwrap.wrap(f"Advice: {self.advice}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        return "\n".join([str(self.check), *lines])

    def fields(self) -> dict[str, Any]:
        """Return an element of `checks` in the JSON."""
        check = self.check
        if check.slack is None:
            status = "the slack was not measured"
        else:
            status = "complete" if math.isfinite(check.slack) else f"the slack is {check.slack}"
        names = ("id", "instance", "verdict", "slack", "witness", "kind", "proof", "paper_verdict", "errata")
        return {
            **attributes(check, *names, "label"),
            "hypotheses": [
                {key: value for key, value in asdict(h).items() if key != "erratum"} for h in check.hypotheses
            ],
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
        """0 if every verdict is as expected, 1 if one is not, 3 if one is undecided, 130 if some are left."""
        if self.remaining:
            return INTERRUPTED
        undecided = [each for each in self.checks if each.check.verdict == "undecided"]
        if not all(each.good for each in self.checks if each not in undecided):
            return NOT_AS_EXPECTED
        return INCOMPLETE if undecided else DONE

    @property
    def interruption(self) -> str | None:
        """After an interrupt: the command that checks the remaining statements."""
        again = command_line("verify", *self.remaining, on=self.on)
        return f"interrupted; to go on: {again}" if self.remaining else None

    @property
    def headline(self) -> str:
        """How many verdicts are as expected, or the verdicts on your own data."""
        if self.on is not None:
            return ", ".join(f"{each.check.id} {each.check.verdict}" for each in self.checks)
        good = sum(each.good for each in self.checks)
        return f"{good} of {len(self.checks)} verdicts as expected"

    def records(self) -> list[dict[str, Any]]:
        """Return a row per check."""
        names = ("id", "instance", "verdict", "expected", "slack")
        return [{name: each.fields()[name] for name in names} for each in self.checks]

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {"checks": [each.fields() for each in self.checks]}

    def table(self) -> Page:
        """Return what `hardmax verify` prints: a table, or for your own data a paragraph per statement."""
        if self.on is not None:
            return "\n\n".join(each.paragraph() for each in self.checks)
        rows = []
        for each in self.checks:
            check = each.check
            unmet = [h.id for h in check.hypotheses if not h.holds]
            where = [check.instance, *([f"not met: {', '.join(unmet)}"] if unmet else [])]
            slack = "" if check.slack is None else f"{check.slack:.3g}"
            rows.append((check.id, "\n".join(where), check.verdict, each.expected or "", slack))
        styles = ["" if each.good else "bold red" for each in self.checks]
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
    >>> [each.check.verdict for each in hm.verify("B-ASM-B", on=hm.data.example("B-FIG-1b")).checks]
    ['fails']
    """
    from hardmax.papers.checking.instances import instances, own_instances

    wanted = [ids] if isinstance(ids, str) else ids
    if on is None and (given or reading == "paper"):
        raise ValueError(f"`{'given' if given else 'reading'}` requires `on`")
    asked = instances(wanted) if on is None else own_instances(wanted or (), on)
    if on is not None:
        asked = [replace(each, reading=reading, options=given or {}) for each in asked]
    own = None if on is None else os.fspath(on) if isinstance(on, str | os.PathLike) else "own data"
    done: list[StatementVerdict] = []
    with session().progress("verifying", len(asked), progress) as bar:
        try:
            for each in asked:
                with session().none_lost():
                    check = each.run()
                    advice = None if own is None else _advice(each, check, on)
                    done.append(StatementVerdict(check, each.expected, advice))
                if each.expected not in (None, check.verdict):
                    session().say(f"{each.id} on {each.name}: {check.verdict}, expected {each.expected}")
                bar.advance()
        except KeyboardInterrupt:
            if not done:
                raise
            session().keep("stopping; the results so far follow")
    rest = dict.fromkeys(each.id for each in asked[len(done) :])
    return VerifyResult(tuple(done), own, tuple(rest))


def separating(problem: Problem, seconds: float = 2.0) -> tuple[int, ...] | None:
    """Return a feasible selection, one that attracts if there is one; None if none is found in time.

    >>> import hardmax as hm
    >>> from hardmax.app.results.verify import separating
    >>> separating(hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [2.0, 0.0]]))
    (0, 1)
    """
    from hardmax.directions.enumerate import attractors, selections

    for search in (attractors, selections):
        for found in search(problem, seconds=seconds):
            return found.selection
    return None


def _advice(each: Instance, found: Check, on: Any) -> str | None:
    """Suggest a selection that separates, where the one that was tested does not, and how to pass it."""
    from hardmax.papers.checking.check import statement_of

    unmet = {h.id for h in found.hypotheses if h.holds is False}
    takes = "selection" in signature(statement_of(each.id).test).parameters
    if not ("best tokens separable" in unmet or ("selection separable" in unmet and takes)):
        return None
    tested = "the given tokens" if "selection" in each.options else "the best tokens"
    tokens = separating(each.subject())
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
    return f"{advice} {each.id} is about the best tokens; for a selection, run: {other}"
