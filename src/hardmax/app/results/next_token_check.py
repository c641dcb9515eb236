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
from hardmax._lib.terminal import Page, ending, others, shown, visible
from hardmax.app.results.session import check_range, session, writable
from hardmax.data.sentences.punctuation import KEEP, apart, checked

if TYPE_CHECKING:
    from hardmax.data.sentences.distinct import Distinct
    from hardmax.data.sentences.sentences import Sentences
    from hardmax.data.sentences.streaming import FileBlock
    from hardmax.nexttoken.analysis import Analysis
    from hardmax.nexttoken.realizable import RealizablePart


LINES = 12  # of the collocation and of the orders
RIGID = 0.5  # a smaller share is explained

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


def sentence_of(kind: str, w: dict[str, Any], repaired: Collection[str] = ()) -> str:
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


def _some(words: list[str], count: int | None = None) -> str:
    more = (count or len(words)) - min(len(words), LINES)
    return ", ".join(shown(words[:LINES])) + (f" and {others(more)}" if more else "")


def _tables(fields: dict[str, Any]) -> list[str]:
    """List the collocation and the orders."""
    pairs = [f"{shown(x)} -> {shown(y)}" for x, y in list(fields["collocation"].items())[:LINES]]
    more = len(fields["collocation"]) - len(pairs)
    lines = ["", "collocation: " + ", ".join(pairs) + (f" and {others(more)}" if more else "")]
    active = [(q, types) for q, types in fields["orders"].items() if types["optimal"]]
    for q, types in active[:LINES]:
        lines.append(f"under {shown(q)}: {_some(types['optimal'])} > {_some(types['non_optimal'])}")
    if len(active) > LINES:
        lines.append(f"and {len(active) - LINES:,} other queries are in the JSON")
    return lines


def _about(analysis: Analysis, part: RealizablePart) -> list[str]:
    """Describe the realizable part."""
    if not part.of_samples:
        return ["", "realizable part found: none, because no sentence has two tokens."]
    share = part.samples / part.of_samples
    lines = [
        "",
        f"realizable part found: {part.samples:,} of {part.of_samples:,} samples ({share:.2%}), "
        f"from {part.whole:,} whole sentences and the beginnings of {part.cut:,}",
    ]
    if not part.samples:
        lines[1] = (
            "realizable part found: none. No cycle x -> y -> ... -> x of tokens, as in the permutation of "
            "a realizable dataset, can be put together from the first two tokens of sentences."
        )
    elif share < RIGID:
        lines.append(
            "It is small because a realizable dataset is rigid: each first token s allows one sentence only, "
            "made of s, n(s), n(n(s)), ... for one permutation n of the tokens (C-THM-STRUCT)."
        )
    idle = analysis.never_first
    if idle > len(analysis.repaired):
        lines.append(
            f"Tokens that begin no sentence: {idle:,}; a repair gives them a next token, to keep more."
        )
    return lines


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
        """The sentences that were checked."""
        return self.analysis.text

    @property
    def is_empty(self) -> bool:
        """Whether the realizable part is empty."""
        return self.part is not None and not self.part.samples

    @property
    def teaches_attention(self) -> bool:
        """Whether a sentence of the realizable part goes on after two different tokens."""
        return (self.analysis if self.part is None else self.part).teaches_attention

    @property
    def realizable(self) -> bool | None:
        """Whether there is no violation; None if sentences that were not read may decide."""
        return _verdict(self.analysis, self.is_whole)

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
            {**attributes(v, "kind", "count"), "witness": sentence_of(v.kind, v.witnesses[0])}
            for v in self.analysis.violations
        ]

    @property
    def status(self) -> str:
        """Complete, or the number of sentences or of their tokens that were checked."""
        if not self.is_whole:
            return f"interrupted: checked the first {self.sentences.n:,} sentences"
        if not self.sentences.cut:
            return "complete"
        longer = f"{self.sentences.cut:,} of {self.sentences.n:,} sentences are longer"
        return f"checked up to {self.sentences.max_length} tokens; {longer}"

    @property
    def exit_code(self) -> int:
        """0 if realizable, 1 if not, 3 if sentences were cut and none violates, 130 if interrupted."""
        verdict = self.realizable
        return ending(interrupted=not self.is_whole, wrong=verdict is False, incomplete=verdict is None)

    def save(self, path: str | os.PathLike[str]) -> NextTokenReport:
        """Write the realizable part, .json as JSON; return a result with the name of the file."""
        from hardmax.data.sentences.reading import refuse_pipes, write_raw

        if self.is_empty:
            raise ValueError("there is nothing to save: the realizable part is empty")
        refuse_pipes(self.files)
        sentences: Iterable[list[str]] = islice(self.raw(), self.sentences.n)  # later ones are not checked
        count = self.sentences.n
        if self.part is not None:
            sentences = self.part.beginnings(sentences)
            count = self.part.whole + self.part.cut
        write_raw(path, self._all(sentences, count))
        return replace(self, saved=os.fspath(path))

    def _all(self, sentences: Iterable[list[str]], count: int) -> Iterable[list[str]]:
        """Yield the sentences; raise if their file has changed, before the draft takes its place."""
        read = 0
        for words in sentences:
            read += 1
            yield words
        if read != count:
            raise ValueError(
                f"{self.name} must be as it was when it was checked, got {read:,} sentences to save instead "
                f"of {count:,}; run the command again"
            )

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        analysis, sentences, part = self.analysis, self.sentences, self.part
        words = sentences.vocabulary
        smallest, largest = analysis.frequencies(uniform=self.uniform) or (None, None)
        measures = ("whole", "cut", "vocabulary", "samples", "of_samples")
        return {
            "file": self.name,
            "realizable": self.realizable,
            "status": self.status,
            "assumptions": analysis.assumptions,
            "violations": [
                {**attributes(v, "kind", "count"), "witness": v.witnesses[0], "more": v.witnesses[1:]}
                for v in analysis.violations
            ],
            "repaired": analysis.words(analysis.repaired),
            "collocation": {
                word: words[y] if y >= 0 else None for word, y in zip(words, analysis.n.tolist(), strict=True)
            },
            "orders": _orders(analysis),
            "components": {
                words[q]: [*map(analysis.words, parts)] for q, parts in analysis.components.items()
            },
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
            "realizable_part": part and {"sentences": part.whole + part.cut, **attributes(part, *measures)},
            "teaches_attention": self.teaches_attention,
            "saved": self.saved,
            **({"files": self.files} if len(self.files) > 1 else {}),
        }

    def table(self) -> Page:
        """Return what `hardmax ntp check` prints."""
        from rich.text import Text

        analysis, part, fields = self.analysis, self.part, self.fields()
        sizes = fields["sentences"]["count"], fields["samples"], fields["vocabulary"]
        repaired = fields["repaired"]
        made_up = f", with a next token made up for {_some(repaired)}" if repaired else ""
        lines: list[Page] = [
            f"{shown(self.name)}: "
            + "raw sentences: {:,}, distinct samples: {:,}, tokens: {:,}".format(*sizes),
            Text.assemble(_VERDICTS[self.realizable], made_up),
        ]
        if self.status != "complete":
            lines.append(self.status + ("; a larger maximum length checks more" if self.is_whole else ""))
        for violation in analysis.violations:
            name, witnesses = NAMES[violation.kind], violation.witnesses
            count = f"  {violation.count:,}  ({COUNTED[violation.kind]})"
            lines += ["", Text.assemble((name, "bold"), count)]
            lines += [f"  {sentence_of(violation.kind, witness, repaired)}" for witness in witnesses]
        undecided = [
            f"  under {shown(q)}: {'; '.join(map(_some, c))}" for q, c in fields["components"].items()
        ]
        if undecided:
            note = "Training drives other orders to infinity, and keeps these tokens at finite distances:"
            lines += ["", note, *undecided[:LINES]]
        if len(undecided) > LINES:
            lines.append(f"  and {len(undecided) - LINES:,} other queries")
        lines += _tables(fields) if part is None else _about(analysis, part)
        if not self.teaches_attention and (part is None or part.samples):
            lines.append(
                f"No sentence of {'these sentences' if part is None else 'this part'} goes on after two "
                "different tokens: it teaches which token follows which, and attention nothing, which never "
                "has to choose."
            )
        if self.saved:
            options = " --repair" * bool(repaired) + " --steps 0" * (not self.teaches_attention)
            # the path stays whole in a command to copy, however long it is
            train = f"hardmax ntp train {visible(shlex.quote(self.saved))} --out MODEL{options}"
            lines.append(f"written to {shown(self.saved)}; {train} trains on it")
        elif part is not None and part.samples:
            lines.append("It can be saved as a file.")
        return lines


def _verdict(analysis: Analysis, is_whole: bool) -> bool | None:
    if is_whole:
        return analysis.realizable
    # more sentences may fix the other kinds: a token that begins none yet may begin one later
    kinds = {violation.kind for violation in analysis.violations}
    return False if "nondeterministic" in kinds else None


def _orders(analysis: Analysis) -> dict[str, dict[str, Any]]:
    """Return the types of tokens under each query, in words."""
    orders, words = analysis.orders, analysis.text.vocabulary
    is_small = orders.V <= SMALL
    names = ("optimal", "non_optimal", "confused")
    queries: dict[int, dict[str, Any]] = {}
    for q in range(orders.V if is_small else 0):
        queries[q] = {name: [] for name in names}
    for name in names:
        for q, x in zip(*(column.tolist() for column in orders.of_type(name)), strict=True):
            queries.setdefault(q, {name: [] for name in names})[name].append(words[x])
    for types in queries.values():
        typed = {*chain(*types.values())}
        types["non_comparable"] = [w for w in words if w not in typed] if is_small else None
        types["status"] = "complete" if is_small else "non_comparable: all words not listed here"
    return {words[q]: types for q, types in sorted(queries.items())}


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
    from hardmax.data.sentences.distinct import Distinct
    from hardmax.data.sentences.reading import look_at, raw_sentences, refuse_pipes
    from hardmax.data.sentences.samples import as_sentences

    check_range(2, LONGEST, max_length=max_length)
    check_range(0, MOST_WORKERS, workers=workers)
    checked(punctuation)
    files: tuple[str, ...] = ()
    if isinstance(data, str | os.PathLike):
        names = [os.fspath(file) for file in (data, *more)]
        files = tuple("/dev/stdin" if name == "-" else name for name in names)
        if not all(files):
            raise ValueError(
                "data must be the name of a file, got an empty one; is a shell variable not set?"
            )
        if " " in files[0] and not os.path.exists(files[0]):
            raise FileNotFoundError(
                f"no file is called {files[0]!r}; write the sentences to a file, one per line, or give a "
                "list of sentences in Python"
            )
    if save_realizable is not None:
        writable("save_realizable", save_realizable, *files)
        refuse_pipes(files)
    name, is_whole = "sentences", True
    raw: Callable[[], Iterable[list[str]]]
    with session().progress("checking", STEPS, progress) as bar, session().noted() as interrupted:
        if files:
            name = files[0] if len(files) == 1 else f"{files[0]} and {others(len(files) - 1)}"
            look_at(files)
            advance = _counter(bar.share, sum(map(_size, files)), 0.0, READING)
            where = {"backend": backend, "address": address, "workers": workers}
            text = _read(files, max_length, punctuation, where, advance, interrupted)
            is_whole = not interrupted()
            raw = lambda: chain.from_iterable(raw_sentences(f, max_length, punctuation) for f in files)  # noqa: E731
        else:
            sentences = as_sentences(data)
            if punctuation != KEEP:
                lists = [apart(sentences.words(i), punctuation) for i in range(sentences.n)]
                sentences = as_sentences(lists)
            text = Distinct.of(sentences)
            raw = lambda: map(sentences.words, range(sentences.n))  # noqa: E731
        options = {
            "repair": repair,
            "workers": workers if backend == "local" else None,
            "tell": _counter(bar.share, len(text.counts), READING, 1.0),
        }
        analysis, part = _survey(text, is_whole, interrupted, **options)
    result = NextTokenReport(name, analysis, part, uniform, raw, files, is_whole, punctuation=punctuation)
    for note in result.sentences.notes:
        session().say(f"{result.name}: {note}")
    if save_realizable is None or not result.is_whole:
        return result
    if result.is_empty:
        session().say(f"nothing was written to {save_realizable}: the realizable part is empty")
        return result
    return result.save(save_realizable)


def _survey(
    text: Distinct, is_whole: bool, interrupted: Callable[[], bool], **options: Any
) -> tuple[Analysis, RealizablePart | None]:
    """Survey the sentences that were read; a first interrupt raises with the verdict so far."""
    from hardmax.nexttoken.analysis import survey
    from hardmax.nexttoken.realizable import realizable_part

    verdict = ""
    interrupted = interrupted if is_whole else lambda: False
    try:
        analysis = survey(text, interrupted=interrupted, **options)
        verdict = {True: "realizable", False: "not realizable", None: ""}[_verdict(analysis, is_whole)]
        part = realizable_part(analysis) if analysis.violations else None
        if interrupted():
            raise KeyboardInterrupt
        return analysis, part
    except KeyboardInterrupt as stop:
        message = f"interrupted while the {text.n:,} sentences that were read were checked"
        verdict = verdict or str(stop)
        message = f"{message}: they are {verdict}" if verdict else message
        raise KeyboardInterrupt(f"{message}; start the command again to check all of them") from None


def _read(
    files: Sequence[str],
    max_length: int,
    punctuation: str,
    where: dict[str, Any],
    advance: Callable[[int], object],
    enough: Callable[[], bool],
) -> Distinct:
    """Return the distinct sentences of files; a cluster reads parts, and what it cannot read is read here."""
    from hardmax.data.sentences import streaming
    from hardmax.trials.sweep import spread

    if where["backend"] == "local" and where["address"] is None:
        return streaming.read_distinct(
            files, max_length, punctuation=punctuation, workers=where["workers"], tell=advance, enough=enough
        )

    def texts() -> Iterable[FileBlock | Distinct]:
        parts = streaming.parts_of(files, max_length, streaming.PART, punctuation)
        for part, row in spread(streaming.TASK, parts, **where):
            if part["stop"] == streaming.HERE:
                name = Path(part["name"])
                yield from streaming.texts_of(name, max_length, streaming.BLOCK, punctuation)
                continue
            is_whole = part["stop"] == streaming.WHOLE
            try:
                row = row or streaming.count_part({**part, "file": part["name"]})
            except ValueError:
                if not is_whole:  # the worker's message lacks the line of the file
                    streaming.read_distinct([part["name"]], max_length)
                raise
            yield streaming.unpacked(row["part"])
            advance(_size(part["file"]) if is_whole else part["stop"] - part["start"])

    return streaming.finished(streaming.gather_distinct(texts(), max_length, workers=1, enough=enough), files)


def _counter(report: Callable[[float], object], total: int, low: float, high: float) -> Callable[[int], None]:
    """Return a function that counts up to ``total`` and reports a share of the progress, low to high."""
    done = 0

    def add(more: int) -> None:
        nonlocal done
        done += more
        report(low + (high - low) * min(1.0, done / max(total, 1)))

    return add


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:  # the function that opens the file reports it
        return 0
