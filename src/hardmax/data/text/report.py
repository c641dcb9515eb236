"""What became of the reviews and tokens on their way into a corpus; every step says what it left out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextReport:
    """Numbers of reviews, words and tokens at each step of `text_corpus`, and what else is worth knowing.

    Reviews: ``read`` of the files; left out as ``unlabelled`` (three stars, blank), too ``short`` or too
    ``long`` in characters, ``unsampled`` (not drawn), ``emptied`` (no token left); ``reviews`` remain.
    Words: ``words`` in all, ``distinct_words`` of them, ``stopped`` as stop words. Tokens: ``tokens`` found,
    ``cut`` from the ends of long reviews, ``purged`` as rare; ``kept`` remain. ``distinct_tokens`` are there
    before the purge, ``vocabulary`` after it.

    >>> from hardmax.embeddings import TextReport
    >>> report = TextReport(read=3, unlabelled=1, reviews=2, words=9, stopped=2, tokens=7, kept=7)
    >>> print(report)
    reviews read                 3
      without a label           -1
      in the corpus              2
    words                        9
      stop words                -2
    tokens                       7
      in the corpus              7
    """

    read: int = 0
    unlabelled: int = 0
    short: int = 0
    long: int = 0
    unsampled: int = 0
    emptied: int = 0
    reviews: int = 0
    words: int = 0
    distinct_words: int = 0
    stopped: int = 0
    tokens: int = 0
    cut: int = 0
    purged: int = 0
    kept: int = 0
    distinct_tokens: int = 0
    vocabulary: int = 0
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = (
            ("reviews read", self.read, 1),
            ("  without a label", self.unlabelled, -1),
            ("  too short", self.short, -1),
            ("  too long", self.long, -1),
            ("  not in the sample", self.unsampled, -1),
            ("  emptied", self.emptied, -1),
            ("  in the corpus", self.reviews, 1),
            ("words", self.words, 1),
            ("  stop words", self.stopped, -1),
            ("  distinct", self.distinct_words, 1),
            ("tokens", self.tokens, 1),
            ("  cut from long reviews", self.cut, -1),
            ("  purged as rare", self.purged, -1),
            ("  in the corpus", self.kept, 1),
            ("  distinct before the purge", self.distinct_tokens, 1),
            ("  distinct in the corpus", self.vocabulary, 1),
        )
        shown = [(what, f"{sign * number:,}") for what, number, sign in rows if number]
        width = max((len(number) for _, number in shown), default=0)
        lines = [f"{what:<28}{number:>{width}}" for what, number in shown]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])
