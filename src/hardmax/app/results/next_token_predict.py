"""`ntp predict`: the next token of a sentence, with its reason."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.arguments import check_arguments
from hardmax._lib.reading import NotJson, parse_json
from hardmax._lib.result import Result
from hardmax._lib.terminal import Page, grid, shown, spelled

if TYPE_CHECKING:
    from hardmax.nexttoken import Prediction, Predictor


SHOWN = 10  # most probable next tokens


@dataclass(frozen=True, eq=False, repr=False)
class NextTokenPrediction(Result):
    """A sentence and the prediction of its next token.

    >>> import hardmax as hm
    >>> from hardmax.app.results.next_token_predict import predict_next
    >>> svop = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> print(predict_next(hm.nexttoken.training.train(svop).predictor, "O S P", limit=True))
    next  probability  attended  weight  type
    P     1            O         1       optimal
    S     2.71267e-23  S         0       non-comparable
    V     2.71267e-23  P         0       non-optimal
    O     2.71267e-23
    unique: O: optimal under the last token
    """

    schema: ClassVar[str] = "hardmax.ntp-predict/1"
    row_field: ClassVar[str] = "next"

    sentence: tuple[str, ...]
    prediction: Prediction

    @property
    def headline(self) -> str:
        """The most probable next token and its probability."""
        word, probability = self.prediction.next(1)[0]
        return f"{shown(word)} with probability {probability:.6g}, {self.prediction.rule}"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        told = self.prediction
        return {
            "sentence": self.sentence,
            "next": [{"token": word, "probability": p} for word, p in told.next(SHOWN)],
            "attended": [{"token": a.word, "weight": a.weight, "type": a.type} for a in told.attended],
            "rule": told.rule,
            "reason": told.reason,
        }

    def table(self) -> Page:
        """Return what `hardmax ntp predict` prints."""
        told = self.prediction
        left = [(shown(word), f"{p:.6g}") for word, p in told.next(SHOWN)]
        right = [(shown(a.word), f"{a.weight:.6g}", a.type.replace("_", "-")) for a in told.attended]
        rows = [(*(a or ("", "")), *(b or ())) for a, b in zip_longest(left, right)]
        table = grid(("next", "probability", "attended", "weight", "type"), rows)
        return [table, f"{told.rule}: {spelled(told.reason)}"]


@check_arguments
def predict_next(
    model: Predictor | str | os.PathLike[str], sentence: str | Sequence[str], *, limit: bool = False
) -> NextTokenPrediction:
    """Predict the next token of a sentence, with the reason.

    Args:
        model: File of a model that `hardmax ntp train` wrote. In Python also a `Predictor`.
        sentence: Words separated by spaces, or a JSON list of words. In Python also a list of words.
        limit: Predict with the limit of infinitely long training.

    >>> import hardmax as hm
    >>> from hardmax.app.results.next_token_predict import predict_next
    >>> svop = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> predict_next(hm.nexttoken.training.train(svop).predictor, ["S", "V", "P"]).prediction.rule
    'tie'
    """
    from hardmax.nexttoken.predict import Predictor

    words = _words(sentence) if isinstance(sentence, str) else list(sentence)
    predictor = Predictor.load(model) if isinstance(model, str | os.PathLike) else model
    return NextTokenPrediction(tuple(words), predictor.predict(words, limit=limit))


def _words(sentence: str) -> list[str]:
    """Return the words between spaces; a JSON list can also name words that contain some."""
    try:
        listed = parse_json(sentence)
    except NotJson:
        return sentence.split()
    fits = isinstance(listed, list) and all(isinstance(word, str) for word in listed)
    return listed if fits else sentence.split()
