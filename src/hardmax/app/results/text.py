"""`text`: train a classifier, explain a prediction, list the tokens that a model selects."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import hardmax as hm
from hardmax._lib.arguments import check_arguments
from hardmax._lib.json import attributes
from hardmax._lib.result import Result
from hardmax._lib.terminal import Page, grid, spelled
from hardmax.app.results.session import check_range, session, writable

if TYPE_CHECKING:
    import numpy as np

    from hardmax.text import AttentionClassifier, Explanation, TokenRanking, TopKReport

HELD_OUT = 0.1
SHOWN = 5  # tokens of each class
TOP = 10  # tokens that the short prediction is made from


@dataclass(frozen=True, eq=False, repr=False)
class TextTraining(Result):
    r"""A classifier, the file that holds it, and its accuracy on held-out texts.

    >>> import pathlib, tempfile
    >>> from hardmax.app.results.text import train_classifier
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "mine.csv")
    ...     _ = file.write_text("text,label\n" + "a good film,1\na bad film,0\n" * 20)
    ...     done = train_classifier(file, f"{folder}/model.npz")
    >>> done.kept.full_accuracy, [word.token for word in done.important.words if word.label == 1][:2]
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

    @property
    def headline(self) -> str:
        """The number of texts, and the accuracy on held-out ones."""
        tested = "" if self.kept is None else f", accuracy {self.kept.full_accuracy:.2%} on held-out texts"
        return f"trained on {self.texts:,} texts{tested}"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        test = self.kept
        accuracy = test and {
            "texts": len(test.predictions),
            "accuracy": test.full_accuracy,
            "majority": self.majority,
            "top_tokens": test.k,
            "top_accuracy": test.accuracy,
            "top_attention": test.attended,
            "tokens_for_90_percent": test.needed,
        }
        return {
            **attributes(self, "seed", "texts", "left_out"),
            "classes": self.classifier.classes_.tolist(),
            "tokens": len(self.classifier.attention_),
            "passes": self.classifier.n_iter_,
            "loss": self.classifier.loss_curve_[-1] if self.classifier.loss_curve_ else None,
            "held_out": accuracy,
            "important": _words(self.important),
            "model": self.model,
            "status": "complete" if accuracy else "no text was held out, so accuracy is not known",
        }

    def table(self) -> Page:
        """Return what `hardmax text train` prints."""
        fields = self.fields()
        rows = {
            "texts trained on": f"{self.texts:,}",
            "words and n-grams": f"{fields['tokens']:,}",
            "passes, loss of the last": f"{fields['passes']}, {fields['loss'] or float('nan'):.4f}",
        }
        if self.kept is not None:
            rows |= {
                "held-out texts": f"{len(self.kept.predictions):,}",
                "accuracy on them": f"{self.kept.full_accuracy:.2%}",
                "always the commonest class": f"{self.majority:.2%}",
                f"from the {self.kept.k} most telling tokens": f"{self.kept.accuracy:.2%}",
                "tokens that hold 90% of attention": f"{self.kept.needed:.0%}",
            }
        if self.model is not None:
            rows["model"] = spelled(self.model)
        return [grid(("what", "value"), rows.items(), head=False), "", self.important.table()]


@check_arguments
def train_classifier(
    data: str | PathLike[str] | Iterable[tuple[str, Any]],
    out: str | PathLike[str] | None = None,
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
    progress: Callable[[int, int], object] | None = None,
) -> TextTraining:
    """Train a classifier on labeled texts and test it on held-out ones.

    Args:
        data: File of texts and labels: CSV, JSON lines or Parquet; .xz and .gz too. In Python also pairs of
            a text and a label.
        out: File that receives the model.
        text: Name of the column of texts.
        label: Name of the column of labels.
        test: File of texts to test on.
        held_out: Fraction of texts held out for testing if no test file is given.
        ngrams: Largest number of words in a token.
        epochs: Number of passes over the texts.
        top_k: Train to predict from this many tokens of a text.
        entropy_penalty: Strength of a penalty on the entropy of attention.
        checkpoint: File that keeps the state after each pass, so that the same command resumes.
        rng: Random seed.
        workers: Number of threads; by default all cores. The result does not depend on it.
        progress: Called with the number of passes done and of all passes.

    >>> from hardmax.app.results.text import train_classifier
    >>> pairs = [("a good film", "+"), ("a bad film", "-")] * 20
    >>> train_classifier(pairs, held_out=0).json()["status"]
    'no text was held out, so accuracy is not known'
    """
    import numpy as np

    from hardmax._lib import expect

    share = expect.nonnegative("held_out", held_out)
    if share >= 1.0:
        raise ValueError(f"held_out must be a share below 1, got {held_out!r}")
    if top_k is not None and entropy_penalty is not None:
        raise ValueError("`top_k` and `entropy_penalty` exclude each other; pass one of them")
    check_range(1, 8, ngrams=ngrams)
    check_range(1, 10_000, epochs=epochs)
    writable("out", out, data, test)
    writable("checkpoint", checkpoint, data, test)
    if expect.whole("rng", rng) >= 2**32:
        raise ValueError(f"rng must be a seed below 2**32, got {rng}")
    texts, labels, left_out = _read(data, text, label)
    rows = np.arange(len(texts))
    test_texts: list[str] = []
    truth = np.array([])
    if test is not None:
        test_texts, truth, _ = _read(test, text, label)
    elif share:
        from sklearn.model_selection import train_test_split

        try:
            rows, others = train_test_split(rows, test_size=share, random_state=rng, stratify=labels)
        except ValueError as error:
            raise ValueError(
                f"data must hold some texts of each class to hold any out ({error}); pass `held_out=0`"
            ) from None
        rows.sort()
        test_texts = [texts[k] for k in others]
        truth = labels[others]
    classifier = hm.text.AttentionClassifier(
        ngram_range=(1, ngrams),
        epochs=epochs,
        top_k=top_k,
        entropy_penalty=entropy_penalty,
        checkpoint=checkpoint,
        random_state=rng,
        n_jobs=workers,
    )
    with session().progress("training", epochs or 5, progress) as bar:
        try:
            report = lambda done, total, loss, score: bar.to(done, total)  # noqa: E731
            classifier._fit([texts[k] for k in rows], labels[rows], None, report)
        except KeyboardInterrupt:
            if checkpoint is None or not bar.done:
                raise
            done = f"interrupted after {bar.done} passes, which {checkpoint} holds"
            raise KeyboardInterrupt(f"{done}; give the same command to go on") from None
    if out is not None:
        classifier.save(out)
    report_of_test, majority = None, None
    if test_texts:
        report_of_test = classifier.evaluate_top_k(test_texts, truth, TOP)
        majority = float(np.mean(truth == classifier.classes_[int(np.argmax(classifier._shares))]))
    if left_out:
        session().say(f"{data}: {left_out:,} texts without a label were left out")
    if test is None and share:
        session().say(
            "texts were held out at random; where several are about one thing, as films in reviews are, "
            "accuracy on new things is lower: pass a file of these as `test`"
        )
    tokens = classifier.top_tokens(SHOWN)
    file = None if out is None else fspath(out)
    return TextTraining(classifier, file, rng, len(rows), left_out, report_of_test, majority, tokens)


def _read(data: Any, text: str | None, label: str | None) -> tuple[list[str], np.ndarray, int]:
    """Return texts, labels of one type, and the number of texts without a label."""
    import numpy as np

    from hardmax.data.reviews import read_labelled

    rows = read_labelled(data, text=text, label=label) if isinstance(data, str | os.PathLike) else data
    texts, labels, unlabelled = [], [], 0
    for content, value in rows:
        if value is None:
            unlabelled += 1
        else:
            texts.append(content)
            labels.append(value)
    if not texts:
        raise ValueError("data must hold texts with labels, got none; is the column of labels empty?")
    if len({*map(type, labels)}) > 1:  # 1, 2 and "n/a" in one column
        labels = [*map(str, labels)]
    return texts, np.array(labels), unlabelled


@dataclass(frozen=True, eq=False, repr=False)
class TextExplanation(Result):
    """Why a model gives a text its class; ``page`` is the file that `save` wrote.

    >>> from hardmax.app.results.text import explain, train_classifier
    >>> done = train_classifier([("a good film", "+"), ("a bad film", "-")] * 20, held_out=0)
    >>> explain(done.classifier, "how good!").json()["predicted"]
    '+'
    """

    schema: ClassVar[str] = "hardmax.text-explain/1"
    row_field: ClassVar[str] = "tokens"

    explanation: Explanation
    page: str | None = None

    @property
    def headline(self) -> str:
        """The class with its probability and score."""
        label, score = self.explanation.label, self.explanation.score
        return f"{label}: probability {self.explanation.probability:.3f}, score {score:+.3f}"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        explanation = self.explanation
        return {
            **attributes(explanation, "predicted", "label", "probability", "score"),
            "tokens": [
                attributes(part, "token", "value", "contribution")
                | {"count": part.occurrences, "attention": part.share}
                for part in explanation.parts
            ],
            "unknown_words": explanation.unknown,
            "page": self.page,
        }

    def table(self) -> Page:
        """Return what `hardmax text explain` prints."""
        return self.explanation.table()

    def _repr_html_(self) -> str:
        return self.explanation._repr_html_()


@check_arguments
def explain(
    model: AttentionClassifier | str | PathLike[str],
    text: str | Sequence[str],
    *,
    label: Any = None,
    page: str | PathLike[str] | None = None,
) -> TextExplanation:
    """Explain a prediction by attention, value and contribution of words.

    Args:
        model: File of a model that `hardmax text train` wrote. In Python also a fitted classifier.
        text: The text. In Python also a list of words.
        label: Explain the score of this class instead of the predicted one.
        page: Write the explanation as a page of HTML.

    >>> from hardmax.app.results.text import explain, train_classifier
    >>> result = train_classifier([("a good film", "+"), ("a bad film", "-")] * 20, held_out=0)
    >>> explain(result.classifier, "how good!", label="-").explanation.score < 0
    True
    """
    writable("page", page, model)
    classifier, label = _loaded(model, label)
    explanation = classifier.explain(text, label)
    if page is not None:
        explanation.save(page)
    return TextExplanation(explanation, None if page is None else fspath(page))


@dataclass(frozen=True, eq=False, repr=False)
class TextTokens(Result):
    """The tokens that a model selects; ``picture`` is the file of the map of words, if one was asked for.

    >>> from hardmax.app.results.text import important, train_classifier
    >>> done = train_classifier([("a good film", "+"), ("a bad film", "-")] * 20, held_out=0)
    >>> important(done.classifier, limit=1, label="-").json()["tokens"][0]["token"]
    'bad'
    """

    schema: ClassVar[str] = "hardmax.text-important/1"
    row_field: ClassVar[str] = "tokens"

    important: TokenRanking
    picture: str | None = None

    @property
    def headline(self) -> str:
        """The first words of the list."""
        return ", ".join(f"{w.token} ({w.label})" for w in self.important.words[:6])

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {"tokens": _words(self.important), "picture": self.picture}

    def table(self) -> Page:
        """Return what `hardmax text important` prints."""
        return self.important.table()


@check_arguments
def important(
    model: AttentionClassifier | str | PathLike[str],
    *,
    limit: int = 10,
    label: Any = None,
    plot: str | PathLike[str] | None = None,
) -> TextTokens:
    """List the words that a model selects for each class.

    Args:
        model: File of a model that `hardmax text train` wrote. In Python also a fitted classifier.
        limit: Number of words per class.
        label: Only this class.
        plot: Draw the map of all words as .svg, .png or .pdf.

    >>> from hardmax.app.results.text import important, train_classifier
    >>> result = train_classifier([("a good film", "+"), ("a bad film", "-")] * 20, held_out=0)
    >>> len(important(result.classifier, limit=2).important.words)
    4
    """
    writable("plot", plot, model, picture=True)
    from hardmax._lib import expect

    expect.whole("limit", limit, 1)
    classifier, label = _loaded(model, label)
    if plot is not None:
        classifier.word_map(label).save(Path(plot))
    return TextTokens(classifier.top_tokens(limit, label), None if plot is None else fspath(plot))


def _loaded(model: Any, label: Any) -> tuple[AttentionClassifier, Any]:
    """Return a model, and one of its classes, which a command line can only give as a text."""
    if isinstance(model, str | os.PathLike):
        model = hm.text.AttentionClassifier.load(model)
    if isinstance(label, str):
        label = next((name for name in model.classes_.tolist() if str(name) == label), label)
    return model, label


def _words(important: TokenRanking) -> list[dict[str, Any]]:
    names = ("token", "label", "posterior", "logit", "value")
    return [{**attributes(word, *names), "count": word.occurrences} for word in important.words]
