"""`hardmax verify`: does every statement hold where it should, and fail where it should?"""

import math
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax.cli.errors import DONE, INCOMPLETE, NOT_AS_EXPECTED, Interrupted
from hardmax.cli.interrupts import none_lost
from hardmax.cli.output import Output, command

if TYPE_CHECKING:
    from rich.table import Table

    from hardmax.theory.check import Check
    from hardmax.theory.instances import Instance


@command("hardmax.verify/1")
def verify(
    out: Output,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Statements, as in B-THM-3; all if none.")
    ] = None,
) -> int:
    """Check the papers' statements, where they hold and where not.

    Example: hardmax verify B-THM-3 C-THM-ASY
    """
    from hardmax.theory.instances import instances

    chosen = instances(ids or None)
    found: list[dict[str, Any]] = []
    with out.progress("verifying", len(chosen)) as progress:
        try:
            for each in chosen:
                with none_lost():
                    told = _fields(each, each.run())
                found.append(told)
                if told["verdict"] != each.expected:
                    out.say(f"{each.id} on {each.name}: {told['verdict']}, expected {each.expected}")
                progress.advance()
        except KeyboardInterrupt:
            if not found:
                raise
            out.say("stopping; what was checked so far follows")
    out.result({"checks": found}, lambda: _table(found))
    if len(found) < len(chosen):
        rest = dict.fromkeys(each.id for each in chosen[len(found) :])
        raise Interrupted(f"interrupted; to go on: {shlex.join(['hardmax', 'verify', *rest])}")
    if any(each["verdict"] not in ("undecided", each["expected"]) for each in found):
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
    }


def _table(found: list[dict[str, Any]]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("", "id", "instance", "verdict", "slack", "because"):
        table.add_column(name, no_wrap=name in ("", "id", "verdict", "slack"))
    for each in found:
        good = each["verdict"] == each["expected"]
        unmet = [h["id"] for h in each["hypotheses"] if not h["holds"]]
        verdict = each["verdict"] if good else f"{each['verdict']}, not {each['expected']}"
        table.add_row(
            "[green]ok[/]" if good else "[bold red]NO[/]",
            each["id"],
            each["instance"],
            verdict,
            "" if each["slack"] is None else f"{each['slack']:.3g}",
            f"not met: {', '.join(unmet)}" if unmet else "",
        )
    return table
