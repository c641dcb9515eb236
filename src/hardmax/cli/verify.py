"""`hardmax verify`: does every statement hold where it should, and fail where it should? And on own data?"""

import math
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax.cli.errors import DONE, INCOMPLETE, NOT_AS_EXPECTED, Interrupted
from hardmax.cli.interrupts import none_lost
from hardmax.cli.output import Output, command

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hardmax.theory.check import Check
    from hardmax.theory.instances import Instance


@command("hardmax.verify/2")
def verify(
    out: Output,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Statements, as in B-THM-3; all if none.")
    ] = None,
    on: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Own data: a problem, texts with labels, or sentences, by the ID."),
    ] = None,
) -> int:
    """Check the papers' statements, where they hold and where not.

    Example: hardmax verify B-THM-3 C-THM-ASY, or hardmax verify B-THM-2 --on problem.json
    """
    from rich.markup import escape

    from hardmax.theory.instances import instances, own_instances

    chosen = instances(ids or None) if on is None else own_instances(ids or [], on)
    found: list[dict[str, Any]] = []
    in_words: list[str] = []
    with out.progress("verifying", len(chosen)) as progress:
        try:
            for each in chosen:
                with none_lost():
                    check = each.run()
                told = _fields(each, check)
                found.append(told)
                in_words.append(str(check))
                if each.expected not in (None, told["verdict"]):
                    out.say(f"{each.id} on {each.name}: {told['verdict']}, expected {each.expected}")
                progress.advance()
        except KeyboardInterrupt:
            if not found:
                raise
            out.say("stopping; what was checked so far follows")
    out.result({"checks": found}, lambda: _table(found) if on is None else "\n\n".join(map(escape, in_words)))
    if len(found) < len(chosen):
        rest = [*dict.fromkeys(each.id for each in chosen[len(found) :])]
        rest += [] if on is None else ["--on", str(on)]
        raise Interrupted(f"interrupted; to go on: {shlex.join(['hardmax', 'verify', *rest])}")
    if not all(each["verdict"] == "undecided" or _good(each) for each in found):
        return NOT_AS_EXPECTED
    return INCOMPLETE if any(each["verdict"] == "undecided" for each in found) else DONE


def _fields(asked: "Instance", check: "Check") -> dict[str, Any]:
    if check.slack is None:
        status = "the slack was not measured"
    else:
        status = "complete" if math.isfinite(check.slack) else f"the slack is {check.slack}"
    return {
        "id": check.id,
        "instance": check.instance,
        "hypotheses": [
            {key: value for key, value in asdict(h).items() if key != "erratum"} for h in check.hypotheses
        ],
        "verdict": check.verdict,
        "expected": asked.expected,
        "slack": check.slack,
        "status": status,
        "witness": check.witness,
        "kind": check.kind,
        "proof": check.proof,
    }


def _good(each: dict[str, Any]) -> bool:
    """As expected; or, where nothing is expected, nothing that speaks against the statement."""
    if each["expected"] is not None:
        return bool(each["verdict"] == each["expected"])
    return each["verdict"] not in ("fails", "refuted")


def _table(found: list[dict[str, Any]]) -> "RenderableType":
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("id", "on", "verdict", "expected", "slack"):
        table.add_column(name, no_wrap=name != "on", overflow="fold")
    for each in found:
        unmet = [h["id"] for h in each["hypotheses"] if not h["holds"]]
        where = [each["instance"], *([f"not met: {', '.join(unmet)}"] if unmet else [])]
        slack = "" if each["slack"] is None else f"{each['slack']:.3g}"
        cells = (each["id"], "\n".join(where), each["verdict"], each["expected"], slack)
        table.add_row(*map(escape, cells), style="" if _good(each) else "bold red")
    return Group(table, f"{sum(map(_good, found))} of {len(found)} verdicts as expected")
