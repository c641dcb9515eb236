"""What the `text` commands say: a trained classifier, why a text got its class, which tokens matter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.arguments import check_arguments
from hardmax._lib.terminal import spelled
from hardmax.app.results.answer import Answer

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Group
    from rich.table import Table

    from hardmax.text import AttentionClassifier, Explanation, TokenRanking, TopKReport

HELD_OUT = 0.1
SHOWN = 5  # tokens of each class
TOP = 10  # tokens that the short prediction is made from


@dataclass(frozen=True, eq=False, repr=False)
class TextTrained(Answer):
    """A classifier, the file that holds it, and what it is worth on texts that it did not see.

    >>> import pathlib, tempfile
    >>> import hardmax as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mine.csv")
    ...     _ = file.write_text("text,label\\n" + "a good film,1\\na bad film,0\\n" * 20)
    ...     done = hm.answers.text_train(file, f"{folder}/model.npz")
    >>> done.kept.full_accuracy, [each.token for each in done.important.words if each.label == 1][:2]
    (1.0, ['good', 'a good'])
    """

    schema: ClassVar[str] = "hardmax.text-train/1"

    classifier: AttentionClassifier
    model: str | None
    seed: int
    texts: int
    left_out: int
    kept: TopKReport | None
    majority: float | None
    important: TokenRanking

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        kept, held = self.kept, None
        if kept is not None:
            held = {
                "texts": len(kept.predictions),
                "accuracy": kept.full_accuracy,
                "majority": self.majority,
                "top_tokens": kept.k,
                "top_accuracy": kept.accuracy,
                "top_attention": kept.attended,
                "tokens_for_90_percent": kept.needed,
            }
        return {
            "seed": self.seed,
            "texts": self.texts,
            "left_out": self.left_out,
            "classes": self.classifier.classes_.tolist(),
            "tokens": len(self.classifier.attention_),
            "passes": self.classifier.n_iter_,
            "loss": self.classifier.loss_curve_[-1] if self.classifier.loss_curve_ else None,
            "held_out": held,
            "important": _words(self.important),
            "model": self.model,
            "status": "complete" if held else "no text was held out, so accuracy is not known",
        }

    def table(self) -> Group:
        """What `hardmax text train` prints."""
        from rich.console import Group
        from rich.table import Table

        table, told = Table(box=None, pad_edge=False, show_header=False), self.fields()
        table.add_row("texts trained on", f"{self.texts:,}")
        table.add_row("words and n-grams", f"{told['tokens']:,}")
        table.add_row("passes, loss of the last", f"{told['passes']}, {told['loss'] or float('nan'):.4f}")
        if self.kept is not None:
            table.add_row("held-out texts", f"{len(self.kept.predictions):,}")
            table.add_row("accuracy on them", f"{self.kept.full_accuracy:.2%}")
            table.add_row("always the commonest class", f"{self.majority:.2%}")
            table.add_row(f"from the {self.kept.k} most telling tokens", f"{self.kept.accuracy:.2%}")
            table.add_row("tokens that hold 90% of attention", f"{self.kept.needed:.0%}")
        if self.model is not None:
            table.add_row("model", spelled(self.model))
        return Group(table, "", self.important.table())


@check_arguments
def text_train(
    data: str | PathLike[str] | Iterable[tuple[str, Any]],
    model: str | PathLike[str] | None = None,
    *,
    text: str | None = None,
    label: str | None = None,
    test: str | PathLike[str] | None = None,
    held_out: float = HELD_OUT,
    ngrams: int = 2,
    epochs: int | None = None,
    top_k: int | None = None,
    entropy_penalty: float | None = None,
    checkpoint: str | PathLike[str] | None = None,
    rng: int = 0,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TextTrained:
    """Train a classifier on labelled texts and test it on held-out ones, as `hardmax text train` does.

    Args:
        data: a file of texts and labels as `hm.data.read_labelled` takes it, or pairs of them.
        model: the file that gets the classifier.
        text, label: the names of the columns, where they are not the usual ones.
        test: a file to test on; without it a share ``held_out`` of the texts, drawn at random.
        held_out: that share; 0 trains on everything.
        ngrams: the most words in a token.
        epochs, top_k, entropy_penalty, checkpoint: those of `hm.text.AttentionClassifier`.
        rng: the seed.
        workers: threads; all cores by default. Their number does not change the result.
        progress: told of passes done, and of how many.

    >>> import hardmax as hm
    >>> pairs = [("a good film", "+"), ("a bad film", "-")] * 20
    >>> hm.answers.text_train(pairs, held_out=0).json()["status"]
    'no text was held out, so accuracy is not known'
    """
    import numpy as np

    from hardmax._lib import expect
    from hardmax.text import AttentionClassifier

    share = expect.nonnegative("held_out", held_out)
    if share >= 1.0:
        raise ValueError(f"held_out must be a share below 1, got {held_out!r}")
    if expect.whole("rng", rng) >= 2**32:
        raise ValueError(f"rng must be a seed below 2**32, got {rng}")
    texts, labels, left_out = _read(data, text, label)
    own = np.arange(len(texts))
    aside: list[str] = []
    truth = np.array([])
    if test is not None:
        aside, truth, _ = _read(test, text, label)
    elif share:
        from sklearn.model_selection import train_test_split

        try:
            own, rest = train_test_split(own, test_size=share, random_state=rng, stratify=labels)
        except ValueError as error:
            raise ValueError(
                f"data must hold some texts of each class to hold any out ({error}); give held_out=0"
            ) from None
        own.sort()
        aside, truth = [texts[k] for k in rest], labels[rest]
    classifier = AttentionClassifier(
        ngram_range=(1, expect.whole("ngrams", ngrams, 1)),
        epochs=epochs,
        top_k=top_k,
        entropy_penalty=entropy_penalty,
        checkpoint=checkpoint,
        random_state=rng,
        n_jobs=workers,
    )
    report = None if progress is None else lambda done, total, loss, score: progress(done, total)
    classifier._fit([texts[k] for k in own], labels[own], None, report)
    if model is not None:
        classifier.save(model)
    kept = classifier.evaluate_top_k(aside, truth, TOP) if len(aside) else None
    common = classifier.classes_[int(np.argmax(classifier._shares))]
    majority = float(np.mean(truth == common)) if len(aside) else None
    file = None if model is None else fspath(model)
    return TextTrained(
        classifier, file, rng, len(own), left_out, kept, majority, classifier.top_tokens(SHOWN)
    )


def _read(data: Any, text: str | None, label: str | None) -> tuple[list[str], np.ndarray, int]:
    """Texts, labels of one type, and how many texts had none."""
    import numpy as np

    from hardmax.data.reviews import read_labelled

    rows = read_labelled(data, text=text, label=label) if isinstance(data, str | os.PathLike) else data
    texts, labels, left_out = [], [], 0
    for content, value in rows:
        if value is None:
            left_out += 1
            continue
        texts.append(content)
        labels.append(value)
    if not texts:
        raise ValueError("data must hold texts with labels, got none; is the column of labels empty?")
    if len({type(each) for each in labels}) > 1:  # 1, 2 and "n/a" in one column
        labels = [str(each) for each in labels]
    return texts, np.array(labels), left_out


@dataclass(frozen=True, eq=False, repr=False)
class TextExplained(Answer):
    """Why a model gives a text its class; ``page`` is the file that `save` wrote.

    >>> import hardmax as hm
    >>> done = hm.answers.text_train([("a good film", "+"), ("a bad film", "-")] * 20, held_out=0)
    >>> hm.answers.text_explain(done.classifier, "how good!").json()["predicted"]
    '+'
    """

    schema: ClassVar[str] = "hardmax.text-explain/1"

    explanation: Explanation
    page: str | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        told = self.explanation
        return {
            "predicted": told.predicted,
            "label": told.label,
            "probability": told.probability,
            "score": told.score,
            "tokens": [
                {
                    "token": p.token,
                    "count": p.occurrences,
                    "attention": p.share,
                    "value": p.value,
                    "contribution": p.contribution,
                }
                for p in told.parts
            ],
            "unknown_words": told.unknown,
            "page": self.page,
        }

    def table(self) -> Table:
        """What `hardmax text explain` prints."""
        return self.explanation.table()

    def _repr_html_(self) -> str:
        return self.explanation._repr_html_()


@check_arguments
def text_explain(
    model: AttentionClassifier | str | PathLike[str],
    text: str | Sequence[str],
    *,
    label: Any = None,
    page: str | PathLike[str] | None = None,
) -> TextExplained:
    """Take the prediction of one text apart, as `hardmax text explain` does.

    Args:
        model: a fitted classifier, or the file that `hardmax text train` wrote.
        text: the text, or a list of words.
        label: the class whose score is explained; the predicted one by default.
        page: a file that gets the explanation as one page of HTML.

    >>> import hardmax as hm
    >>> done = hm.answers.text_train([("a good film", "+"), ("a bad film", "-")] * 20, held_out=0)
    >>> hm.answers.text_explain(done.classifier, "how good!", label="-").explanation.score < 0
    True
    """
    from hardmax.text.explanations import explain

    found = _loaded(model)
    explanation = explain(found, text, _meant(found, label))
    if page is not None:
        explanation.save(page)
    return TextExplained(explanation, None if page is None else fspath(page))


@dataclass(frozen=True, eq=False, repr=False)
class TextImportant(Answer):
    """The tokens that a model selects; ``picture`` is the file of the map of words, if one was asked for.

    >>> import hardmax as hm
    >>> done = hm.answers.text_train([("a good film", "+"), ("a bad film", "-")] * 20, held_out=0)
    >>> hm.answers.text_important(done.classifier, n=1, label="-").json()["tokens"][0]["token"]
    'bad'
    """

    schema: ClassVar[str] = "hardmax.text-important/1"

    important: TokenRanking
    picture: str | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        return {"tokens": _words(self.important), "picture": self.picture}

    def table(self) -> Table:
        """What `hardmax text important` prints."""
        return self.important.table()


@check_arguments
def text_important(
    model: AttentionClassifier | str | PathLike[str],
    *,
    n: int = 10,
    label: Any = None,
    picture: str | PathLike[str] | None = None,
) -> TextImportant:
    """The tokens that a model selects for its classes, as `hardmax text important` does.

    Args:
        model: a fitted classifier, or the file that `hardmax text train` wrote.
        n: how many of each class.
        label: only for this class.
        picture: a file, .svg, .png or .pdf, that gets the map of all words.

    >>> import hardmax as hm
    >>> done = hm.answers.text_train([("a good film", "+"), ("a bad film", "-")] * 20, held_out=0)
    >>> len(hm.answers.text_important(done.classifier, n=2).important.words)
    4
    """
    found = _loaded(model)
    meant = _meant(found, label)
    if picture is not None:
        found.word_map(meant).save(Path(picture))
    return TextImportant(found.top_tokens(n, meant), None if picture is None else fspath(picture))


def _loaded(model: Any) -> AttentionClassifier:
    from hardmax.text import AttentionClassifier

    return AttentionClassifier.load(model) if isinstance(model, str | os.PathLike) else model


def _meant(model: AttentionClassifier, label: Any) -> Any:
    """The class that a label means, which a command line can only give as a text."""
    if isinstance(label, str):
        return next((each for each in model.classes_.tolist() if str(each) == label), label)
    return label


def _words(important: TokenRanking) -> list[dict[str, Any]]:
    return [
        {
            "token": w.token,
            "label": w.label,
            "posterior": w.posterior,
            "count": w.occurrences,
            "logit": w.logit,
            "value": w.value,
        }
        for w in important.words
    ]
