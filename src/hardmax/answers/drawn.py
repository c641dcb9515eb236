"""What `ntp generate` says: a random realizable dataset, and what a check of it found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.terminal import DONE, NOT_AS_EXPECTED
from hardmax.answers.answer import Answer

if TYPE_CHECKING:
    from hardmax.nexttoken import Analysis, Generated


@dataclass(frozen=True, eq=False, repr=False)
class Drawn(Answer):
    """Sentences that were drawn with a seed, checked; ``out`` is the file that `save` wrote.

    >>> import hardmax as hm
    >>> hm.answers.ntp_generate(3, rng=0)
    0 2 1 2 1
    1 0 2 1
    2 1
    """

    schema: ClassVar[str] = "hardmax.ntp-generate/1"

    seed: int
    made: Generated
    analysis: Analysis
    assumption3: bool = True
    out: str | None = None

    @property
    def exit_code(self) -> int:
        """0 if the dataset is what was asked for, 1 if not."""
        as_asked = self.analysis.realizable if self.assumption3 else self.analysis.legal
        return DONE if as_asked else NOT_AS_EXPECTED

    def save(self, path: str | PathLike[str]) -> Drawn:
        """Write the sentences, .json as JSON; returns the answer that says so."""
        from hardmax.data.sentences.reading import write_sentences

        write_sentences(path, self.made.text)
        return replace(self, out=fspath(path))

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        return {
            "seed": self.seed,
            "out": self.out,
            "realizable": self.analysis.realizable,
            "violations": [{"kind": each.kind, "count": each.count} for each in self.analysis.violations],
            "sentences": self.made.sentences,
            "collocation": self.made.n,
            "lags": self.made.lag,
            "samples": len(self.analysis.trie.samples),
            "longest": int(self.analysis.trie.depth.max()),
        }

    def table(self) -> str:
        """What `hardmax ntp generate` prints: a sentence of token numbers on each line."""
        return "\n".join(" ".join(map(str, sentence)) for sentence in self.made.sentences)


def ntp_generate(vocabulary: int = 20, *, rng: int, assumption3: bool = True, **settings: Any) -> Drawn:
    """Draw a random realizable dataset and check it, as `hardmax ntp generate` does.

    Args:
        vocabulary: number of tokens.
        rng: the seed.
        assumption3: end sentences before Assumption 3 breaks.
        settings: the others, as `nexttoken.generate` takes them.

    >>> import hardmax as hm
    >>> drawn = hm.answers.ntp_generate(50, rng=1, max_length=6)
    >>> drawn.exit_code, drawn.json()["longest"]
    (0, 6)
    """
    from hardmax import nexttoken

    made = nexttoken.generate(vocabulary, assumption3=assumption3, rng=rng, **settings)
    return Drawn(rng, made, nexttoken.analyze(made.text), assumption3)
