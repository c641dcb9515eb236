"""`hardmax doctor`: is this installation sound?"""

import textwrap
from typing import TYPE_CHECKING

from hardmax.cli.errors import DONE, NOT_AS_EXPECTED
from hardmax.cli.output import Output, columns, command

if TYPE_CHECKING:
    from rich.text import Text

    from hardmax.doctor import Finding


@command("hardmax.doctor/1")
def doctor(out: Output) -> int:
    """Examine the installation, and compile what is not yet compiled.

    Example: hardmax doctor --json
    """
    from dataclasses import asdict

    from rich.console import Group

    from hardmax.doctor import examine

    findings = examine()
    out.result(
        {"checks": [asdict(finding) for finding in findings]}, lambda: Group(_lines(findings))
    )  # which is not folded again
    return DONE if all(finding.ok for finding in findings) else NOT_AS_EXPECTED


def _lines(findings: "list[Finding]") -> "Text":
    from rich.text import Text

    width = max(len(finding.name) for finding in findings)
    indent = " " * (len("FAIL ") + width + 2)
    lines = Text()
    for number, finding in enumerate(findings):
        lines.append("\n" if number else "")
        lines.append("ok   " if finding.ok else "FAIL ", style="green" if finding.ok else "bold red")
        # paths and commands stay whole, to be copied
        told = textwrap.wrap(
            finding.detail, columns() - len(indent), break_long_words=False, break_on_hyphens=False
        )
        lines.append(f"{finding.name:<{width}}  " + f"\n{indent}".join(told))
    return lines
