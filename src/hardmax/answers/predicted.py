"""What `ntp predict` says: the next token, what was attended to, and why."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.terminal import shown, spelled
from hardmax.answers.answer import Answer

if TYPE_CHECKING:
    from rich.console import Group

    from hardmax.nexttoken import Prediction, Predictor

SHOWN = 10  # most probable next tokens


@dataclass(frozen=True, eq=False, repr=False)
class Predicted(Answer):
    """The words of a sentence and what a model says to it.

    >>> import hardmax as hm
    >>> svop = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> hm.answers.ntp_predict(hm.nexttoken.train(svop).predictor, "O S P", limit=True)
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
    >>> hm.answers.ntp_predict(hm.nexttoken.train(svop).predictor, ["S", "V", "P"]).prediction.rule
    'tie'
    """
    from hardmax.nexttoken.model_file import load_model

    words = sentence.split() if isinstance(sentence, str) else list(sentence)
    predictor = load_model(model) if isinstance(model, str | os.PathLike) else model
    return Predicted(tuple(words), predictor.predict(words, limit=limit))
