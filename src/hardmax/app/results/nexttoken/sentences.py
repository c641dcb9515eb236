"""What `ntp generate` and `ntp predict` say: sentences drawn, and the next token with its reason."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.arguments import check_arguments
from hardmax._lib.terminal import DONE, NOT_AS_EXPECTED, shown, spelled
from hardmax.app.results.answer import Answer

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


@check_arguments
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


if TYPE_CHECKING:
    from rich.console import Group

    from hardmax.nexttoken import Prediction, Predictor


SHOWN = 10  # most probable next tokens


@dataclass(frozen=True, eq=False, repr=False)
class Predicted(Answer):
    """The words of a sentence and what a model says to it.

    >>> import hardmax as hm
    >>> svop = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> hm.answers.ntp_predict(hm.nexttoken.training.train(svop).predictor, "O S P", limit=True)
    next  probability  attended  weight  type
    P     1            O         1       optimal
    S     2.71267e-23  S         0       non-comparable
    V     2.71267e-23  P         0       non-optimal
    O     2.71267e-23
    unique: O: optimal under the last token
    """

    schema: ClassVar[str] = "hardmax.ntp-predict/1"

    sentence: tuple[str, ...]
    prediction: Prediction

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        told = self.prediction
        return {
            "sentence": self.sentence,
            "next": [{"token": word, "probability": p} for word, p in told.next(SHOWN)],
            "attended": [{"token": a.word, "weight": a.weight, "type": a.type} for a in told.attended],
            "rule": told.rule,
            "reason": told.reason,
        }

    def table(self) -> Group:
        """What `hardmax ntp predict` prints."""
        from rich.console import Group
        from rich.markup import escape
        from rich.table import Table

        told = self.prediction
        table = Table(box=None, pad_edge=False)
        for name in ("next", "probability", "attended", "weight", "type"):
            table.add_column(name)
        left = [(escape(shown(word)), f"{p:.6g}") for word, p in told.next(SHOWN)]
        right = [(escape(shown(a.word)), f"{a.weight:.6g}", a.type.replace("_", "-")) for a in told.attended]
        for i in range(max(len(left), len(right))):
            table.add_row(*(left[i] if i < len(left) else ("", "")), *(right[i] if i < len(right) else ()))
        return Group(table, escape(f"{told.rule}: {spelled(told.reason)}"))


@check_arguments
def ntp_predict(
    model: Predictor | str | os.PathLike[str], sentence: str | Sequence[str], *, limit: bool = False
) -> Predicted:
    """Predict the next token of a sentence, with the reason, as `hardmax ntp predict` does.

    Args:
        model: a trained model, or the file that `hardmax ntp train` wrote.
        sentence: words in a string, or a list of words.
        limit: as if stage 2 had gone on for ever.

    >>> import hardmax as hm
    >>> svop = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> hm.answers.ntp_predict(hm.nexttoken.training.train(svop).predictor, ["S", "V", "P"]).prediction.rule
    'tie'
    """
    from hardmax.nexttoken.predict import Predictor

    words = sentence.split() if isinstance(sentence, str) else list(sentence)
    predictor = Predictor.load(model) if isinstance(model, str | os.PathLike) else model
    return Predicted(tuple(words), predictor.predict(words, limit=limit))
