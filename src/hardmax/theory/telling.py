"""A check in words: a paragraph for a terminal, a table for a notebook."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib.notebook import table

if TYPE_CHECKING:
    from hardmax.theory.check import Check

WIDTH = 79
LONGEST = 60  # characters of one measured value
MEASURED = 6  # values that are told; the others are in `measured`

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
    """The check as a person would tell it, each line at most 79 characters."""
    where = f" on {check.instance}" if check.instance else ""
    wording = ", in the paper's own wording" if check.reading == "paper" else ""
    parts = [f"{check.id}, {check.title}{where}{wording}: {check.verdict} ({MEANING[check.verdict]})."]
    parts += [f"Claim: {check.claim}", _conditions(check)]
    if check.slack is not None and check.verdict != "not applicable":
        parts.append(f"Slack: {check.slack:.4g} (negative if measured to fail).")
    if check.proof:
        parts.append(f"Proof: {check.proof}.")
    if check.measured:
        told = [f"{name} = {short(value)}" for name, value in list(check.measured.items())[:MEASURED]]
        more = len(check.measured) - len(told)
        parts.append(f"Measured: {'; '.join(told)}{f'; and {more} more' if more else ''}.")
    if check.witness is not None:
        parts.append(f"Witness: {short(check.witness)}.")
    if check.paper_verdict not in (None, check.verdict):
        parts.append(f"In the paper's own wording: {check.paper_verdict}.")
    if check.errata:
        parts.append(f"Errata: {', '.join(check.errata)}.")
    return "\n".join(textwrap.fill(part, WIDTH, subsequent_indent="  ") for part in parts if part)


def html(check: Check) -> str:
    """The same as a table, a row for each condition."""
    rows: list[tuple[str, str, str]] = [("verdict", check.verdict, MEANING[check.verdict])]
    rows.append(("claim", check.claim, "" if check.slack is None else f"slack {check.slack:.4g}"))
    met = {True: "met", False: "not met", None: "not decided"}
    rows += [(f"condition {h.id}", met[h.holds], short(h.measured)) for h in check.hypotheses]
    rows += [(name, short(value), "") for name, value in list(check.measured.items())[:MEASURED]]
    return table(f"{check.id}, {check.title}", ["", "", "measured"], rows)


def _conditions(check: Check) -> str:
    if not check.hypotheses:
        return ""
    open_ = [f"{h.id} (measured {short(h.measured)})" for h in check.hypotheses if h.holds is False]
    unsure = [h.id for h in check.hypotheses if h.holds is None]
    met = [h.id for h in check.hypotheses if h.holds]
    parts = [("Not met: ", open_), ("Not decided: ", unsure), ("Met: ", met)]
    return " ".join(f"{name}{'; '.join(each)}." for name, each in parts if each)


def short(value: Any) -> str:
    """A value in a few characters.

    >>> short([0.123456789, 2]), short(None)
    ('0.1235, 2', 'nothing')
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        text = ", ".join(f"{name}: {short(each)}" for name, each in value.items())
    elif isinstance(value, (list, tuple)):
        text = ", ".join(map(short, value))
    else:
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
