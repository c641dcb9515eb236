"""`ntp generate`: random realizable sentences, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardmax import nexttoken
from hardmax._lib.arguments import check_arguments
from hardmax._lib.result import Result
from hardmax._lib.terminal import DONE, NOT_AS_EXPECTED, Page
from hardmax.app.results.session import check_range, session, writable

if TYPE_CHECKING:
    from hardmax.nexttoken import Analysis, Generated


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedSentences(Result):
    """Sentences that were generated with a seed, and their check; ``out`` is the file that `save` wrote.

    >>> from hardmax.app.results.next_token_generate import generate_file
    >>> print(generate_file(vocabulary=3, rng=0))
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

    def save(self, path: str | PathLike[str]) -> GeneratedSentences:
        """Write the sentences, .json as JSON; return a result with the name of the file."""
        from hardmax.data.sentences.reading import write_sentences

        write_sentences(path, self.made.text)
        return replace(self, out=fspath(path))

    @property
    def headline(self) -> str:
        """The number of sentences and of tokens."""
        return f"{len(self.made.sentences):,} sentences, seed {self.seed}"

    def records(self) -> list[dict[str, Any]]:
        """Return a row per sentence."""
        return [{"sentence": " ".join(map(str, sentence))} for sentence in self.made.sentences]

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {
            "seed": self.seed,
            "out": self.out,
            "realizable": self.analysis.realizable,
            "violations": [{"kind": each.kind, "count": each.count} for each in self.analysis.violations],
            "sentences": self.made.sentences,
            "collocation": self.made.n,
            "lags": self.made.lag,
            "samples": self.analysis.samples,
            "longest": self.analysis.text.longest,
        }

    def table(self) -> Page:
        """Return what `hardmax ntp generate` prints: sentences of token numbers, on one line each."""
        from rich.console import Group

        return Group(*(row["sentence"] for row in self.records()))  # not folded: it may become a file


@check_arguments
def generate_file(
    out: str | PathLike[str] | None = None,
    *,
    vocabulary: int = 20,
    permutation: Literal["cycle", "derangement", "uniform"] = "cycle",
    lag0: float = 0.5,
    max_lag: int = 3,
    max_length: int = 8,
    truncate: bool = False,
    assumption3: bool = True,
    multiplicity: int = 1,
    rng: int = 0,
) -> GeneratedSentences:
    """Generate a random realizable dataset.

    Args:
        out: File that receives the sentences, one per line, or as JSON if it ends in .json.
        vocabulary: Number of tokens.
        permutation: Permutation of next tokens: one cycle, a derangement, or uniformly random.
        lag0: Probability that a query has lag 0.
        max_lag: Largest lag; the other lags are uniform from 1 to this.
        max_length: Length of the longest raw sentence.
        truncate: Cut each sentence at a random length.
        assumption3: End sentences before Assumption 3 is violated.
        multiplicity: Repeat each sentence a random number of times, from 1 to this.
        rng: Random seed.

    See also:
        `hm.nexttoken.generate` returns the sentences without a check.

    >>> from hardmax.app.results.next_token_generate import generate_file
    >>> result = generate_file(vocabulary=50, rng=1, max_length=6)
    >>> result.exit_code, result.json()["longest"]
    (0, 6)
    """
    check_range(1, 2_000_000, vocabulary=vocabulary)
    check_range(1, 10_000, max_lag=max_lag)
    check_range(2, 10_000, max_length=max_length)
    check_range(1, 1_000_000, multiplicity=multiplicity)
    writable("out", out)
    made = nexttoken.generate(
        vocabulary,
        permutation=permutation,
        lag0=lag0,
        max_lag=max_lag,
        max_length=max_length,
        truncate=truncate,
        assumption3=assumption3,
        multiplicity=multiplicity,
        rng=rng,
    )
    result = GeneratedSentences(rng, made, nexttoken.analyze(made.text), assumption3)
    if out is None:
        return result
    saved = result.save(out)
    session().say(f"{len(made.sentences):,} sentences written to {out}")
    return saved
