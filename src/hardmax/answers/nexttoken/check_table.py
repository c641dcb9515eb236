"""What `ntp check` prints: the verdict, each violation in words, the realizable part and what to do next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from hardmax._lib.terminal import others, shown, visible

if TYPE_CHECKING:
    from rich.text import Text

    from hardmax.answers.nexttoken.checked import Checked
    from hardmax.nexttoken.checking.survey import Kept, Survey

LINES = 12  # of the collocation and of the orders
RIGID = 0.5  # a smaller share is explained


def report(found: Checked) -> Text:
    """Everything for standard output."""
    from rich.text import Text

    analysis, part, fields = found.analysis, found.part, found.fields()
    text = Text()
    sizes = fields["sentences"]["count"], fields["samples"], fields["vocabulary"]
    text.append(f"{shown(fields['file'])}: ")
    text.append("raw sentences: {:,}, distinct samples: {:,}, tokens: {:,}\n".format(*sizes))
    verdict, style = _VERDICTS[fields["realizable"]]
    text.append(verdict, style=style)
    if fields["repaired"]:
        text.append(f", with a next token made up for {_some(fields['repaired'])}")
    text.append("\n")
    if fields["status"] != "complete":
        text.append(fields["status"] + ("; --max-length checks more\n" if found.is_whole else "\n"))
    for each in analysis.violations:
        text.append(f"\n{each.kind}", style="bold")
        text.append(f"  {each.count:,}  ({COUNTED[each.kind]})\n")
        for witness in each.witnesses:
            text.append(f"  {told_witness(each.kind, witness)}\n")
    text.append(_finite(fields["components"]))
    text.append(_tables(fields) if part is None else _about(analysis, part, fields))
    if not fields["teaches_attention"] and (part is None or part.samples):
        what = "these sentences" if part is None else "this part"
        text.append(
            f"No sentence of {what} goes on after two different tokens: it teaches which token follows "
            "which, and attention nothing, which never has to choose.\n"
        )
    text.append(_next_step(fields))
    return text[:-1]


_VERDICTS = {
    True: ("realizable", "bold green"),
    False: ("not realizable", "bold red"),
    None: ("not decided: no violation in what was checked", "bold yellow"),
}
COUNTED = {
    "nondeterministic": "sentences with several next tokens",
    "missing_collocation": "tokens without a next token of their own",
    "not_injective": "tokens that several tokens lead to",
    "unreachable": "samples in which no token leads to the next one",
    "confused": "tokens under a query that are both above and below others",
    "cycle": "queries whose order goes round in a circle",
    "assumption3": "tokens of a sample more frequent in it than the deciding one",
}


def told_witness(kind: str, w: dict[str, Any]) -> str:
    """One witness as a sentence."""
    w = {key: shown(value) for key, value in w.items()}
    if kind == "nondeterministic":
        return f"[{w['sentence']}] goes on with {_some(w['next'], w['choices'])}"
    if kind == "missing_collocation":
        return f"{w['token']}: {w['reason']}"
    if kind == "not_injective":
        return f"{_some(w['tokens'])} all lead to {w['common_next']}"
    if kind == "unreachable":
        leads = "no token leads there" if w["preimage"] is None else f"{w['preimage']} leads there"
        return f"[{w['sentence']}] goes on with {w['next']}, but {leads}"
    if kind == "confused":
        over, under = w["above"], w["below"]
        return (
            f"under {w['query']}: {over['token']} > {w['token']} in [{over['sentence']}] -> {over['next']}, "
            f"but {w['token']} > {under['token']} in [{under['sentence']}] -> {under['next']}"
        )
    if kind == "cycle":
        return f"under {w['query']}: {' > '.join(w['cycle'])}"
    return (
        f"[{w['sentence']}] -> {w['next']}: {w['token']} occurs {w['count']} times, "
        f"what decides {w['optimal_count']}"
    )


def _some(words: list[str], of: int | None = None) -> str:
    more = (of or len(words)) - min(len(words), LINES)
    return ", ".join(shown(words[:LINES])) + (f" and {others(more)}" if more else "")


def _tables(fields: dict[str, Any]) -> str:
    pairs = [f"{shown(x)} -> {shown(y)}" for x, y in list(fields["collocation"].items())[:LINES]]
    more = len(fields["collocation"]) - len(pairs)
    lines = ["\ncollocation: " + ", ".join(pairs) + (f" and {others(more)}" if more else "")]
    active = [(q, typed) for q, typed in fields["orders"].items() if typed["optimal"]]
    for q, typed in active[:LINES]:
        lines.append(f"under {shown(q)}: {_some(typed['optimal'])} > {_some(typed['non_optimal'])}")
    if len(active) > LINES:
        lines.append(f"and {len(active) - LINES:,} other queries; --json lists all")
    return "\n".join(lines) + "\n"


def _finite(components: dict[str, list[list[str]]]) -> str:
    """What attention cannot decide, inside components."""
    told = [f"  under {shown(q)}: {'; '.join(map(_some, each))}\n" for q, each in components.items()]
    told[LINES:] = [f"  and {len(told) - LINES:,} other queries\n"] if len(told) > LINES else []
    head = "\nTraining drives other orders to infinity, and keeps these tokens at finite distances:\n"
    return head * bool(told) + "".join(told)


def _about(analysis: Survey, part: Kept, fields: dict[str, Any]) -> str:
    if not part.of_samples:
        return "\nrealizable part found: none, because no sentence has two tokens.\n"
    idle = analysis.never_first
    hint = ""
    if idle > len(analysis.repaired):
        hint = f"Tokens that begin no sentence: {idle:,}; --repair gives them a next token, to keep more.\n"
    if not part.samples:
        return (
            "\nrealizable part found: none. No cycle x -> y -> ... -> x of tokens, as in the permutation of "
            f"a realizable dataset, can be put together from the first two tokens of sentences.\n{hint}"
        )
    share = part.samples / part.of_samples
    kept = (
        f"\nrealizable part found: {part.samples:,} of {part.of_samples:,} samples ({share:.2%}), "
        f"from {part.whole:,} whole sentences and the beginnings of {part.cut:,}\n"
    )
    if share < RIGID:
        kept += (
            "It is small because a realizable dataset is rigid: each first token s allows one sentence only, "
            "made of s, n(s), n(n(s)), ... for one permutation n of the tokens (C-THM-STRUCT).\n"
        )
    return kept + hint


def _next_step(fields: dict[str, Any]) -> str:
    """A command that works on what was found."""
    part, saved = fields["realizable_part"], fields["saved"]
    if not saved:
        return "" if part is None or not part["samples"] else "--save-realizable OUT writes it.\n"
    options = (" --repair" if fields["repaired"] else "") + (
        "" if fields["teaches_attention"] else " --steps 0"
    )
    # the path stands whole in what is to be copied, however long it is
    train = f"hardmax ntp train {visible(shlex.quote(saved))} --out MODEL{options}"
    return f"written to {shown(saved)}; {train} trains on it\n"
