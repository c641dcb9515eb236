"""`ntp check`: whether a next-token dataset is realizable, and if not, why, and which part of it is."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardmax._lib.arguments import check_arguments
from hardmax._lib.json import attributes
from hardmax._lib.result import Result
from hardmax._lib.terminal import DONE, INCOMPLETE, INTERRUPTED, NOT_AS_EXPECTED, others, shown, visible
from hardmax.app.results.session import check_range, session, writable
from hardmax.data.sentences.punctuation import KEEP, apart, checked

if TYPE_CHECKING:
    from rich.text import Text

    from hardmax.data.sentences.distinct import Distinct
    from hardmax.data.sentences.sentences import Sentences
    from hardmax.data.sentences.streaming import FileBlock
    from hardmax.nexttoken.analysis import Analysis
    from hardmax.nexttoken.realizable import RealizablePart


LINES = 12  # of the collocation and of the orders
RIGID = 0.5  # a smaller share is explained


def report(found: NextTokenReport) -> Text:
    """Return what `hardmax ntp check` prints."""
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
        text.append(
            fields["status"] + ("; a larger maximum length checks more\n" if found.is_whole else "\n")
        )
    for each in analysis.violations:
        text.append(f"\n{NAMES[each.kind]}", style="bold")
        text.append(f"  {each.count:,}  ({COUNTED[each.kind]})\n")
        for witness in each.witnesses:
            text.append(f"  {told_witness(each.kind, witness, fields['repaired'])}\n")
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
# What a reader sees instead of the words of the JSON.
NAMES = {
    "nondeterministic": "several next tokens",
    "missing_collocation": "no next token",
    "not_injective": "shared next token",
    "unreachable": "unreachable next token",
    "confused": "contradictory order",
    "cycle": "circular order",
    "assumption3": "deciding token outnumbered",
}
COUNTED = {
    "nondeterministic": "sentences with several next tokens",
    "missing_collocation": "tokens without a separate next token",
    "not_injective": "tokens that several tokens lead to",
    "unreachable": "samples in which no token leads to the next one",
    "confused": "tokens under a query that are both above and below others",
    "cycle": "queries whose order goes round in a circle",
    "assumption3": "tokens of a sample more frequent in it than the deciding one",
}


def told_witness(kind: str, w: dict[str, Any], repaired: Collection[str] = ()) -> str:
    """Describe a witness in a sentence; the next tokens of those ``repaired`` are made up."""
    made_up = ", as made up by the repair" if w.get("preimage") in repaired else ""
    w = {key: shown(value) for key, value in w.items()}
    if kind == "nondeterministic":
        return f"[{w['sentence']}] is followed by {_some(w['next'], w['choices'])}"
    if kind == "missing_collocation":
        return f"{w['token']}: {w['reason']}"
    if kind == "not_injective":
        return f"{_some(w['tokens'])} all lead to {w['common_next']}"
    if kind == "unreachable":
        sentence = f"[{w['sentence']}] is followed by {w['next']}, but no token in it leads there"
        if w["preimage"] is None:
            return f"{sentence}, and no other does"
        itself = " itself" if w["preimage"] == w["next"] else ""
        return f"{sentence}; {w['preimage']}{itself} does{made_up}"
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
        lines.append(f"and {len(active) - LINES:,} other queries are in the JSON")
    return "\n".join(lines) + "\n"


def _finite(components: dict[str, list[list[str]]]) -> str:
    """Describe what attention cannot decide, inside components."""
    lines = [f"  under {shown(q)}: {'; '.join(map(_some, each))}\n" for q, each in components.items()]
    lines[LINES:] = [f"  and {len(lines) - LINES:,} other queries\n"] if len(lines) > LINES else []
    head = "\nTraining drives other orders to infinity, and keeps these tokens at finite distances:\n"
    return head * bool(lines) + "".join(lines)


def _about(analysis: Analysis, part: RealizablePart, fields: dict[str, Any]) -> str:
    if not part.of_samples:
        return "\nrealizable part found: none, because no sentence has two tokens.\n"
    idle = analysis.never_first
    hint = ""
    if idle > len(analysis.repaired):
        hint = f"Tokens that begin no sentence: {idle:,}; a repair gives them a next token, to keep more.\n"
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
    """Return a command that continues with what was found."""
    part, saved = fields["realizable_part"], fields["saved"]
    if not saved:
        return "" if part is None or not part["samples"] else "It can be saved as a file.\n"
    options = (" --repair" if fields["repaired"] else "") + (
        "" if fields["teaches_attention"] else " --steps 0"
    )
    # the path stands whole in what is to be copied, however long it is
    train = f"hardmax ntp train {visible(shlex.quote(saved))} --out MODEL{options}"
    return f"written to {shown(saved)}; {train} trains on it\n"


# Up to this many tokens every query is listed with all tokens; beyond, only queries that relate some.
SMALL = 1000
MAX_LENGTH = 64
LONGEST = 10_000  # tokens of a sentence
MOST_WORKERS = 10_000
READING = 0.6  # of the time of a check
STEPS = 1000  # of the progress


@dataclass(frozen=True, eq=False, repr=False)
class NextTokenReport(Result):
    """The analysis of sentences, and the realizable ``part`` of a dataset that is not realizable.

    ``raw`` returns the raw sentences again, ``files`` are their files, and ``is_whole`` is False if an
    interrupt ended the reading. ``saved`` is the file that `save` wrote.

    >>> from hardmax.app.results.next_token_check import check
    >>> print(check(["A B", "B A"]))
    sentences: raw sentences: 2, distinct samples: 2, tokens: 2
    realizable
    <BLANKLINE>
    collocation: A -> B, B -> A
    No sentence of these sentences goes on after two different tokens: it teaches
      which token follows which, and attention nothing, which never has to choose.
    """

    schema: ClassVar[str] = "hardmax.ntp-check/2"

    name: str
    analysis: Analysis
    part: RealizablePart | None
    uniform: bool
    raw: Callable[[], Iterable[list[str]]] = field(repr=False)
    files: tuple[str, ...] = ()
    is_whole: bool = True
    saved: str | None = None
    punctuation: str = KEEP

    @property
    def sentences(self) -> Distinct:
        """What was checked."""
        return self.analysis.text

    @property
    def is_empty(self) -> bool:
        """Whether the realizable part is."""
        return self.part is not None and not self.part.samples

    @property
    def teaches_attention(self) -> bool:
        """Whether a sentence of the realizable part goes on after two different tokens."""
        return (self.analysis if self.part is None else self.part).teaches_attention

    @property
    def realizable(self) -> bool | None:
        """Whether there is no violation; None if what was not read may decide."""
        if self.is_whole:
            return self.analysis.realizable
        # more sentences may fix the other kinds: a token that begins none yet may begin one later
        torn = any(each.kind == "nondeterministic" for each in self.analysis.violations)
        return False if torn else None

    @property
    def interruption(self) -> str | None:
        """After an interrupt: how many sentences were checked."""
        message = f"{self.status}, no more; start the command again to check all of them"
        return None if self.is_whole else message

    @property
    def headline(self) -> str:
        """The verdict, and the sizes of the dataset."""
        verdict = _VERDICTS[self.realizable][0]
        return f"{verdict}; {self.sentences.n:,} sentences, {self.sentences.V:,} tokens"

    def records(self) -> list[dict[str, Any]]:
        """Return a row per kind of violation."""
        return [
            {"kind": each.kind, "count": each.count, "witness": told_witness(each.kind, each.witnesses[0])}
            for each in self.analysis.violations
        ]

    @property
    def status(self) -> str:
        """Complete, or up to how many tokens, or how many sentences, were checked."""
        if not self.is_whole:
            return f"interrupted: checked the first {self.sentences.n:,} sentences"
        if not self.sentences.cut:
            return "complete"
        longer = f"{self.sentences.cut:,} of {self.sentences.n:,} sentences are longer"
        return f"checked up to {self.sentences.max_length} tokens; {longer}"

    @property
    def exit_code(self) -> int:
        """0 if realizable, 1 if not, 3 if sentences were cut and no violation was met, 130 if interrupted."""
        if not self.is_whole:
            return INTERRUPTED
        if self.realizable is None:
            return INCOMPLETE
        return DONE if self.realizable else NOT_AS_EXPECTED

    def save(self, path: str | os.PathLike[str]) -> NextTokenReport:
        """Write the realizable part, .json as JSON; return a result with the name of the file."""
        from hardmax.data.sentences.reading import refuse_pipes, write_raw

        if self.is_empty:
            raise ValueError("there is nothing to save: the realizable part is empty")
        refuse_pipes(self.files)
        raw = islice(self.raw(), self.sentences.n)  # what came behind them since is not checked
        if self.part is None:
            write_raw(path, self._all(raw, self.sentences.n))
        else:
            write_raw(path, self._all(self.part.beginnings(raw), self.part.whole + self.part.cut))
        return replace(self, saved=os.fspath(path))

    def _all(self, sentences: Iterable[list[str]], count: int) -> Iterable[list[str]]:
        """Yield the sentences; a file that has changed since is noticed before the draft takes its place."""
        met = 0
        for words in sentences:
            met += 1
            yield words
        if met != count:
            raise ValueError(
                f"{self.name} must be as it was when it was checked, got {met:,} sentences to save instead "
                f"of {count:,}; run the command again"
            )

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        analysis, sentences = self.analysis, self.sentences
        smallest, largest = analysis.frequencies(uniform=self.uniform) or (None, None)
        return {
            "file": self.name,
            "realizable": self.realizable,
            "status": self.status,
            "assumptions": analysis.assumptions,
            "violations": [
                {
                    "kind": each.kind,
                    "count": each.count,
                    "witness": each.witnesses[0],
                    "more": each.witnesses[1:],
                }
                for each in analysis.violations
            ],
            "repaired": analysis.words(analysis.repaired),
            "collocation": _collocation(analysis),
            "orders": _orders(analysis),
            "components": _components(analysis),
            "sentences": {
                "count": sentences.n,
                **attributes(sentences, "longest", "cut", "cut_tokens", "max_length"),
            },
            "punctuation": self.punctuation,
            "vocabulary": sentences.V,
            "samples": analysis.samples,
            "frequencies": {
                "uniform": self.uniform,
                "smallest": smallest,
                "largest": largest,
                "status": "complete" if analysis.samples else "no sentence has two tokens",
            },
            "notes": sentences.notes,
            "realizable_part": None if self.part is None else _measured(self.part),
            "teaches_attention": self.teaches_attention,
            "saved": self.saved,
            **({"files": self.files} if len(self.files) > 1 else {}),
        }

    def table(self) -> Text:
        """Return what `hardmax ntp check` prints."""
        return report(self)


@check_arguments
def check(
    data: str | os.PathLike[str] | Sentences | Iterable[str | Sequence[Any]],
    *more: str | os.PathLike[str],
    uniform: bool = False,
    max_length: int = MAX_LENGTH,
    repair: bool = False,
    punctuation: Literal["keep", "split", "strip"] = "keep",
    save_realizable: str | os.PathLike[str] | None = None,
    backend: Literal["local", "dask", "ray"] = "local",
    address: str | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> NextTokenReport:
    """Check whether a next-token dataset is realizable, and show where it is not.

    Args:
        data: Files of sentences: text with one per line, or JSON; .xz and .gz too; - is standard input. In
            Python also sentences, as `hm.nexttoken.analyze` takes them.
        more: Further files.
        uniform: Give every distinct sentence the same weight.
        max_length: Truncate raw sentences to this length.
        repair: Give tokens that begin no sentence a next token, and list them.
        punctuation: Punctuation at the ends of words: keep it, split it off as tokens, or strip it.
        save_realizable: File that receives the realizable part; .json for JSON.
        backend: Where files are read.
        address: Address of the cluster to join; without it one is started here.
        workers: Number of threads or processes; by default one per core.
        progress: Called with the number of steps done and of all steps.

    >>> from hardmax.app.results.next_token_check import check
    >>> result = check(["A B A", "B C", "C A"])
    >>> result.exit_code, result.part.samples, result.part.of_samples
    (1, 3, 4)
    """
    check_range(2, LONGEST, max_length=max_length)
    check_range(0, MOST_WORKERS, workers=workers)
    files = _files(data, more)
    if save_realizable is not None:
        from hardmax.data.sentences.reading import refuse_pipes

        writable("save_realizable", save_realizable, *files)
        refuse_pipes(files)
    with session().progress("checking", STEPS, progress) as bar, session().noted() as interrupted:
        result = _check(
            data,
            files,
            uniform,
            max_length,
            repair,
            punctuation,
            backend,
            address,
            workers,
            bar.share,
            interrupted,
        )
    for note in result.sentences.notes:
        session().say(f"{result.name}: {note}")
    if save_realizable is None or not result.is_whole:
        return result
    if result.is_empty:
        session().say(f"nothing was written to {save_realizable}: the realizable part is empty")
        return result
    return result.save(save_realizable)


def _files(data: Any, more: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the names of files, none if the data are sentences; - is standard input."""
    if not isinstance(data, str | os.PathLike):
        return ()
    names = [os.fspath(each) for each in (data, *more)]
    if not all(names):
        raise ValueError("data must be the name of a file, got an empty one; is a shell variable not set?")
    return tuple("/dev/stdin" if name == "-" else name for name in names)


def _check(
    data: Any,
    files: tuple[str, ...],
    uniform: bool,
    max_length: int,
    repair: bool,
    punctuation: str,
    backend: str,
    address: str | None,
    workers: int | None,
    tell: Callable[[float], object],
    interrupted: Callable[[], bool],
) -> NextTokenReport:
    """Read and survey the sentences.

    An interrupt while files are read ends the reading; a later one raises a KeyboardInterrupt with the
    verdict so far.
    """
    from hardmax._lib import expect
    from hardmax.data.sentences.distinct import Distinct
    from hardmax.data.sentences.reading import look_at, raw_sentences
    from hardmax.data.sentences.streaming import read_distinct
    from hardmax.nexttoken.analysis import as_sentences, survey
    from hardmax.nexttoken.realizable import realizable_part

    checked(punctuation)
    raw: Callable[[], Iterable[list[str]]]
    is_whole = True
    workers = None if workers is None else expect.whole("workers", workers)
    if files:
        name = files[0] if len(files) == 1 else f"{files[0]} and {others(len(files) - 1)}"
        look_at(files)
        done = _Share(tell, sum(map(_size, files)), READING)
        if backend == "local" and address is None:
            text = read_distinct(
                files, max_length, punctuation=punctuation, workers=workers, tell=done.add, enough=interrupted
            )
        else:
            where = {"backend": backend, "address": address, "workers": workers}
            text = _read_apart(files, max_length, punctuation, where, done.add, interrupted)
        is_whole = not interrupted()
        raw = lambda: chain.from_iterable(raw_sentences(f, max_length, punctuation) for f in files)  # noqa: E731
    else:
        name, sentences = "sentences", as_sentences(data)
        if punctuation != KEEP:
            lists = [apart(sentences.words(i), punctuation) for i in range(sentences.n)]
            sentences = as_sentences(lists)
        text = Distinct.of(sentences)
        raw = lambda: map(sentences.words, range(sentences.n))  # noqa: E731
    done = _Share(tell, len(text.counts), 1 - READING, READING)
    here = workers if backend == "local" else None
    later = interrupted if is_whole else lambda: False
    known = ""
    try:
        analysis = survey(text, repair=repair, workers=here, tell=done.add, interrupted=later)
        found = NextTokenReport(name, analysis, None, uniform, raw, files, is_whole, punctuation=punctuation)
        known = {True: "realizable", False: "not realizable", None: ""}[found.realizable]
        found = replace(found, part=realizable_part(analysis)) if analysis.violations else found
        if later():
            raise KeyboardInterrupt
        return found
    except KeyboardInterrupt as stop:
        what = f"interrupted while the {text.n:,} sentences that were read were checked"
        known = known or str(stop)
        message = f"{what}: they are {known}" if known else what
        raise KeyboardInterrupt(f"{message}; start the command again to check all of them") from None


def _read_apart(
    files: Sequence[str],
    max_length: int,
    punctuation: str,
    where: dict[str, Any],
    tell: Callable[[int], object],
    enough: Callable[[], bool],
) -> Distinct:
    """Return the distinct sentences of files whose parts workers read; what they cannot read is read here."""
    from hardmax.data.sentences.streaming import (
        BLOCK,
        HERE,
        PART,
        TASK,
        WHOLE,
        count_part,
        finished,
        gather_distinct,
        parts_of,
        read_distinct,
        texts_of,
        unpacked,
    )
    from hardmax.trials.sweep import spread

    def texts() -> Iterable[FileBlock | Distinct]:
        for part, row in spread(TASK, parts_of(files, max_length, PART, punctuation), **where):
            if part["stop"] == HERE:
                yield from texts_of(Path(part["name"]), max_length, BLOCK, punctuation)
                continue
            try:
                row = row or count_part({**part, "file": part["name"]})
            except ValueError:
                if part["stop"] != WHOLE:  # what is wrong is known, but not in which line of the file
                    read_distinct([part["name"]], max_length)
                raise
            yield unpacked(row["part"])
            tell(_size(part["file"]) if part["stop"] == WHOLE else part["stop"] - part["start"])

    return finished(gather_distinct(texts(), max_length, workers=1, enough=enough), files)


class _Share:
    """Tells which share of all work is done, of which this part begins after ``start``."""

    def __init__(self, tell: Callable[[float], object], total: int, share: float, start: float = 0.0) -> None:
        self._tell, self._total, self._share, self._start, self._done = tell, total, share, start, 0

    def add(self, more: int) -> None:
        self._done += more
        self._tell(self._start + self._share * min(1.0, self._done / max(self._total, 1)))


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:  # whoever opens it says so
        return 0


def _collocation(analysis: Analysis) -> dict[str, str | None]:
    words = analysis.text.vocabulary
    return {words[x]: words[y] if y >= 0 else None for x, y in enumerate(analysis.n.tolist())}


def _orders(analysis: Analysis) -> dict[str, dict[str, Any]]:
    """Return the types of tokens under each query, in words."""
    orders, words = analysis.orders, analysis.text.vocabulary
    found: dict[int, dict[str, Any]] = {q: _untyped() for q in range(orders.V) if orders.V <= SMALL}
    for name in ("optimal", "non_optimal", "confused"):
        for q, x in zip(*(column.tolist() for column in orders.of_type(name)), strict=True):
            found.setdefault(q, _untyped())[name].append(words[x])
    for typed in found.values():
        seen = {*typed["optimal"], *typed["non_optimal"], *typed["confused"]}
        typed["non_comparable"] = [w for w in words if w not in seen] if orders.V <= SMALL else None
        typed["status"] = "complete" if orders.V <= SMALL else "non_comparable: all words not listed here"
    return {words[q]: typed for q, typed in sorted(found.items())}


def _components(analysis: Analysis) -> dict[str, list[list[str]]]:
    word = analysis.text.vocabulary
    return {word[q]: [analysis.words(each) for each in found] for q, found in analysis.components.items()}


def _untyped() -> dict[str, Any]:
    return {"optimal": [], "non_optimal": [], "confused": [], "non_comparable": []}


def _measured(part: RealizablePart) -> dict[str, Any]:
    names = ("whole", "cut", "vocabulary", "samples", "of_samples")
    return {"sentences": part.whole + part.cut, **attributes(part, *names)}
