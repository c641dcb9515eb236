"""AttentionClassifier: paper A's model as a scikit-learn estimator that names the words it chose."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from os import PathLike
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix, issparse
from scipy.special import expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    check_non_negative,
    column_or_1d,
    validate_data,
)

from hardmax._lib import expect
from hardmax.data.corpora.corpus import Corpus
from hardmax.dynamics.optim import AdamW
from hardmax.embeddings.minibatch import train_embeddings
from hardmax.text import explanations, model_file
from hardmax.text import kernels as compiled
from hardmax.text.counting.vectorizer import NgramVectorizer, mapped, read_documents, tokens_of, workers
from hardmax.text.training import Report, State, TextRows, TrainedPasses, printed, train, usual

TEXTS = 4096  # whose scores one thread computes at a time
ATTENDED = 0.9  # of a text's attention: the share of tokens that hold it is reported
EPOCHS, RATE = 20, 1e-3  # of the solver "embeddings"


def holds_texts(X: Any) -> bool:
    """Return whether X holds texts or lists of words, and not counts."""
    if isinstance(X, str):
        raise ValueError("X must be a list of texts or a matrix of counts, got one text; put it into a list")
    if issparse(X) or not isinstance(X, Iterable):
        return False
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        return len(X.columns) == 1 and any(isinstance(item, str) for item in X.iloc[:, 0])
    if getattr(X, "ndim", 1) != 1 or getattr(getattr(X, "dtype", None), "kind", "O") not in "OUT":
        return False
    return any(
        isinstance(word, str)
        for item in X
        for word in (item if isinstance(item, list | tuple | np.ndarray) else [item])
    )


def _one_row(counts: Any, columns: int) -> Any:
    """The counts of one text, for a model that was trained on counts, as a step of a pipeline is."""
    if not issparse(counts):
        is_text = isinstance(counts, str) or np.asarray(counts).dtype.kind not in "biuf"
        counts = None if is_text else np.reshape(counts, (1, -1))
    if counts is None or counts.shape != (1, columns):
        got = "texts" if counts is None else f"counts of shape {counts.shape}"
        raise ValueError(
            f"text must be one row of {columns} counts, because the model was trained on counts, got {got}; "
            "in a pipeline give pipeline[:-1].transform([text])"
        )
    return counts


def read_labels(y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Check labels of two or more classes; return the classes in order, and the class number of each text."""
    y = column_or_1d(y, warn=True)
    if len(y) != n:
        raise ValueError(f"y must have {n} labels, one per text, got {len(y)}")
    if y.dtype == object:
        kinds = sorted({type(label).__name__ for label in y})
        missing = next((k for k, label in enumerate(y) if label is None or label != label), None)
        if missing is not None:
            raise ValueError(
                f"y must have a label for each text, got {y[missing]!r} at {missing}; drop that text"
            )
        if len(kinds) > 1:
            raise ValueError(
                f"y must hold labels of one type, got {' and '.join(kinds)}; make them all texts"
            )
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes, got one class, {classes[0]!r}; add texts of another"
        )
    return classes, codes.astype(np.int64)


def read_weights(sample_weight: Any, class_weight: Any, classes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the weight of each text: its own times that of its class, in units of their mean."""
    texts = np.empty((len(codes), 1))  # a placeholder
    weights = np.array(_check_sample_weight(sample_weight, texts, dtype=np.float64))
    if (weights < 0).any():
        where = int(np.argmin(weights))
        raise ValueError(f"sample_weight must be at least 0, got {weights[where]:g} at {where}")
    present = np.bincount(codes, weights=weights, minlength=len(classes)) > 0
    if present.sum() < 2:
        raise ValueError(
            "sample_weight must leave at least two classes, got weights above 0 for one class only"
        )
    if class_weight is not None:
        weights *= compute_class_weight(class_weight, classes=classes, y=classes[codes])[codes]
    return weights / weights.mean()


SOLVERS = ("auto", "sgd", "adagrad", "embeddings")
# Parameters that are not negative, and the settings of a training that they set.
SETTINGS = {
    "lr": "rate",
    "attention_lr": "attention_rate",
    "entropy_penalty": "entropy",
    "dropout": "dropout",
}

LARGEST_LOGIT, LARGEST = 300.0, 1e100  # of attention and values: sums over a text stay floats


class AttentionClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A text classifier: each token has a logit of attention and a value per class; a score is a mean.

    The score of a text for a class is the mean of its tokens' values, weighed by the softmax of their logits:
    paper A's one-layer model, trained on E p and E v, which is all that the loss sees of embeddings. Texts
    may be strings, lists of words, or rows of a matrix of counts that are not negative. With two classes the
    score is the log-odds of ``classes_[1]``. Every text also holds the background, a token whose logit is 0:
    a text without a known token has its value, ``background_``, as score.

    Args:
        vectorizer: an object with CountVectorizer's interface; `NgramVectorizer` by default.
        ngram_range, min_df: those of the default vectorizer.
        solver: "sgd" begins at the classes' log-count ratios, "adagrad" at zero; "embeddings" trains the full
            model with E, for two classes; "auto" is the first with n-grams and the second without.
        epochs: passes over the texts; by default 5 to 8, more for small corpora, and with "sgd" fewer for
            unequal weights.
        lr, attention_lr: learning rates of values and of logits; the solver's own by default.
        dropout: share of tokens that a step leaves out; 0.3, or 0 where texts have fewer than 20, by default.
        top_k: number of tokens per text to predict from, the ones that contribute most; two more passes
            are trained on these tokens alone. None reads all tokens.
        entropy_penalty: weight of a penalty on the entropy of attention, for example 0.1. Excludes ``top_k``.
        class_weight: None, "balanced" or a weight per class.
        early_stopping, validation_fraction, patience: hold out a part, end after this many passes without a
            better score on it, and keep the best.
        dimension: dimension of the embeddings (solver "embeddings" only).
        warm_start: begin where the last fit ended, with its vocabulary.
        checkpoint: a file that keeps the state after each pass; the same fit resumes from it, bit for bit.
        random_state: seed of orders and dropout.
        n_jobs: threads for vectorizing and predicting, all cores by default. Results do not depend on it.
        verbose: print the loss after each pass.

    >>> import hardmax as hm
    >>> texts = ["good film", "a good one", "bad film", "a bad one"] * 5
    >>> model = hm.text.AttentionClassifier(ngram_range=(1, 1)).fit(texts, ["+", "+", "-", "-"] * 5)
    >>> model.predict(["so good", "so bad"]).tolist()
    ['+', '-']
    """

    classes_: np.ndarray
    attention_: np.ndarray  # (columns,) logits
    values_: np.ndarray  # (columns, values), one for two classes
    background_: np.ndarray  # (values,)
    vectorizer_: Any  # where it was trained on texts
    n_features_in_: int
    feature_names_in_: np.ndarray
    _model: np.ndarray  # (columns + 1, 1 + values): masses and values
    _counts: np.ndarray  # (columns, classes)
    _shares: np.ndarray  # (classes,)
    _corpus: Corpus | str

    def __init__(
        self,
        *,
        vectorizer: Any = None,
        ngram_range: tuple[int, int] = (1, 2),
        min_df: float = 2,
        solver: str = "auto",
        epochs: int | None = None,
        lr: float | None = None,
        attention_lr: float | None = None,
        dropout: float | None = None,
        top_k: int | None = None,
        entropy_penalty: float | None = None,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 2,
        dimension: int = 128,
        warm_start: bool = False,
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.vectorizer = vectorizer
        self.ngram_range = ngram_range
        self.min_df = min_df
        self.solver = solver
        self.epochs = epochs
        self.lr = lr
        self.attention_lr = attention_lr
        self.dropout = dropout
        self.top_k = top_k
        self.entropy_penalty = entropy_penalty
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.dimension = dimension
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- training -----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on texts (or lists of words, or counts) and their labels."""
        return self._fit(X, y, sample_weight, printed(time.monotonic()) if self.verbose else None)

    def _fit(self, X: Any, y: Any, sample_weight: Any, report: Report | None) -> Self:
        before = self._state if self.warm_start and hasattr(self, "_state") else None
        options = self._options()
        rows = self._rows(X, learn=before is None)
        classes, codes = read_labels(y, len(rows))
        if before is not None and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"y must hold the classes of the first fit, {self.classes_.tolist()}, for a warm start"
            )
        weights = read_weights(sample_weight, self.class_weight, classes, codes)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.classes_ = classes
        self._count(rows, codes, weights)
        self._corpus = explanations.corpus_of(rows, codes, len(classes))
        if self._chosen_solver == "embeddings":
            return self._fit_embeddings(rows, codes, seed, report)
        settings = usual(self._chosen_solver, rows, weights, **options)
        state = before or State.begin(settings.rule, self._counts, self._shares)
        chosen, part, score = np.arange(len(rows)), rows, None
        if self.early_stopping:
            chosen, held_out = self._held_out(codes, seed)
            part, others = rows.take(chosen), rows.take(held_out)

            def score(state: State) -> float:
                predicted = self._labels(self._scores(others, state.table, settings.top)[0])
                return float(np.average(predicted == codes[held_out], weights=weights[held_out]))

        options = {"patience": expect.whole("patience", self.patience, 1), "checkpoint": self.checkpoint}
        options |= {"seed": seed, "score": score, "report": report}
        return self._finish(train(part, codes[chosen], weights[chosen], state, settings, **options))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train one pass at a constant rate on more texts; the first call names all classes.

        The first call decides the vocabulary, too: later texts are read with it. Counts, or a vectorizer
        that learns nothing (such as HashingVectorizer with alternate_sign=False), have no such limit.
        """
        first = not hasattr(self, "_state")
        if first and classes is None:
            raise ValueError(
                "classes must be all labels that will come, got None; give them in the first call"
            )
        names = np.unique(np.asarray(classes)) if first else self.classes_
        if not first and classes is not None and not np.array_equal(np.unique(np.asarray(classes)), names):
            raise ValueError(f"classes must be those of the first call, {names.tolist()}, got others")
        if len(names) < 2:
            raise ValueError(f"classes must be at least two classes, got {names.tolist()}")
        options = self._options()
        rows = self._rows(X, learn=first)
        y = np.asarray(y)
        if len(y) != len(rows):
            raise ValueError(f"y must have {len(rows)} labels, one per text, got {len(y)}")
        odd = next((label for label in y.tolist() if label not in names), None)
        if odd is not None:
            raise ValueError(f"y must hold labels of classes, {names.tolist()}, got {odd!r}")
        codes = np.searchsorted(names, y).astype(np.int64)
        weights = np.ones(len(rows)) if sample_weight is None else np.array(sample_weight, float)
        if first:
            self.classes_ = names
        self._corpus = "the texts came in parts, and are not kept"
        self._count(rows, codes, weights, more=not first)
        solver = "adagrad" if self.solver == "auto" else self._chosen_solver
        settings = usual(solver, rows, weights, **{**options, "epochs": 1, "constant": True})
        state = State.begin(settings.rule, self._counts, self._shares) if first else self._state
        seed = int(check_random_state(self.random_state).randint(2**31 - 1)) + getattr(self, "_calls", 0)
        self._calls = getattr(self, "_calls", 0) + 1
        return self._finish(train(rows, codes, weights, state, settings, seed=seed))

    def _finish(self, done: TrainedPasses) -> Self:
        self._state = done.state
        table = done.state.table
        self.attention_ = np.log(table[:-1, 0])
        self.values_, self.background_ = table[:-1, 1:].copy(), table[-1, 1:].copy()
        self.n_iter_ = len(done.losses)
        self.loss_curve_ = list(done.losses)
        self.validation_scores_ = list(done.scores)
        return self._ready()

    def _ready(self) -> Self:
        """Prepare the arrays of predictions, after training or loading."""
        weights = (self.attention_, LARGEST_LOGIT), (self.values_, LARGEST), (self.background_, LARGEST)
        # nan is not within a bound either
        if not all(np.abs(array).max(initial=0.0) <= largest for array, largest in weights):
            raise ValueError(
                f"attention must stay within {LARGEST_LOGIT:g} and values within {LARGEST:g}, the model has "
                "larger weights; train it with smaller rates"
            )
        masses = np.append(np.exp(self.attention_), 1.0)
        self._model = np.column_stack([masses, np.vstack([self.values_, self.background_])])
        return self

    def _fit_embeddings(self, rows: TextRows, codes: np.ndarray, seed: int, report: Report | None) -> Self:
        """Train E, p and v on the texts that hold a token; this model cannot use the others."""
        if len(self.classes_) != 2:
            raise ValueError(
                f'solver="embeddings" must have labels of two classes, got {len(self.classes_)}; take "sgd"'
            )
        matrix = rows.matrix
        nonempty = matrix.getnnz(axis=1) > 0
        self.embeddings_ = train_embeddings(
            Corpus.from_counts(matrix[nonempty], 2 * codes[nonempty] - 1),
            expect.whole("dimension", self.dimension, 1),
            AdamW(RATE if self.lr is None else self.lr),
            epochs=EPOCHS if self.epochs is None else self.epochs,
            rng=seed,
            progress=None if report is None else lambda done, total: report(done, total, None, None),
        )
        self.attention_ = self.embeddings_.a.copy()
        self.values_, self.background_ = self.embeddings_.c[:, None].copy(), np.zeros(1)
        self.n_iter_, self.loss_curve_, self.validation_scores_ = self.embeddings_.epochs, [], []
        return self._ready()

    def _options(self) -> dict[str, Any]:
        """The settings of `usual` that were given, checked."""
        expect.one_of("solver", self.solver, SOLVERS)
        options: dict[str, Any] = {}
        if self.epochs is not None:
            options["epochs"] = expect.whole("epochs", self.epochs, 1)
        for name, setting in SETTINGS.items():
            if getattr(self, name) is not None:
                options[setting] = expect.nonnegative(name, getattr(self, name))
        if options.get("dropout", 0.0) >= 1.0:
            raise ValueError(f"dropout must be a share below 1, got {self.dropout!r}")
        if self._top:
            options["top"] = self._top
            if self.entropy_penalty is not None:
                raise ValueError("top_k and entropy_penalty must not be given together; choose one of them")
        return options

    @property
    def _top(self) -> int:
        """Tokens that a prediction is made from; 0 for all."""
        return 0 if self.top_k is None else expect.whole("top_k", self.top_k, 1)

    @property
    def _chosen_solver(self) -> str:
        if self.solver != "auto":
            return self.solver
        vectorizer = getattr(self, "vectorizer_", None)
        return "sgd" if getattr(vectorizer, "ngram_range", (1, 1))[1] > 1 else "adagrad"

    def _count(self, rows: TextRows, codes: np.ndarray, weights: np.ndarray, more: bool = False) -> None:
        """Occurrences per class, which `statistics_` and the start are made of, and the classes' shares."""
        counts = rows.counts(codes, weights, len(self.classes_))
        shares = np.bincount(codes, weights=weights, minlength=len(self.classes_))
        self._counts = self._counts + counts if more else counts
        self._shares = self._shares + shares if more else shares

    def _held_out(self, codes: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        options = {"test_size": self.validation_fraction, "random_state": seed, "stratify": codes}
        try:
            rest, held_out = train_test_split(np.arange(len(codes)), **options)
        except ValueError as error:
            raise ValueError(
                f"validation_fraction must leave texts of each class in both parts, got "
                f"{self.validation_fraction!r} ({error}); give early_stopping=False or more texts"
            ) from None
        return np.sort(rest), np.sort(held_out)

    # -- predictions --------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores: log-odds (n,) of the second of two classes, or one column per class."""
        check_is_fitted(self, "attention_")
        rows = self._rows(X)
        without = int((np.diff(rows.indptr) == 0).sum())
        if without and hasattr(self, "vectorizer_"):
            warnings.warn(
                f"{without:,} of {len(rows):,} texts hold no token that the model knows; they get the score "
                "of the background",
                stacklevel=3,
            )
        scores = self._scores(rows, self._model, self._top)[0]
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each text."""
        scores = self.decision_function(X)
        return self.classes_[self._labels(scores[:, None] if scores.ndim == 1 else scores)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, (n, classes)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the probabilities of the classes, (n, classes)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        return log_softmax(scores, axis=1)

    @staticmethod
    def _labels(scores: np.ndarray) -> np.ndarray:
        return (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)

    def _scores(
        self, rows: TextRows, model: np.ndarray, top: int = 0, by_value: bool = True, share: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores (n, values), the share of attention behind them, and ``needed`` of `scores_of`."""
        outputs = np.empty((len(rows), model.shape[1] - 1)), np.empty(len(rows)), np.empty(len(rows))

        def part(at: int) -> None:
            span = slice(at, min(at + TEXTS, len(rows)))
            texts = rows.data, rows.indices, rows.indptr[span.start : span.stop + 1]
            compiled.scores_of(texts, model, top, by_value, share, *(array[span] for array in outputs))

        mapped(part, range(0, len(rows), TEXTS), workers(self.n_jobs))
        return outputs

    def _rows(self, X: Any, learn: bool = False) -> TextRows:
        """X as rows of counts; ``learn`` the vocabulary from texts, or the number of columns."""
        if learn and isinstance(X, list | tuple) and not X:
            raise ValueError("X must hold at least two texts, got none; give texts of at least two classes")
        if not holds_texts(X):
            if not learn and hasattr(self, "vectorizer_"):
                raise ValueError(
                    f"X must be texts or lists of words as in fit, got {type(X).__name__}; "
                    "or give counts to fit, too"
                )
            self.__dict__.pop("vectorizer_", None)
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=learn)
            check_non_negative(X, "AttentionClassifier (X holds how often each token occurs)")
            matrix = csr_matrix(X, copy=issparse(X))  # a user's matrix does not change
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
            return TextRows.of(matrix)
        if learn:
            options: dict[str, Any] = {
                "ngram_range": self.ngram_range,
                "min_df": self.min_df,
                "n_jobs": self.n_jobs,
            }
            ours = NgramVectorizer(binary=True, dtype=np.float64, **options)
            self.vectorizer_ = ours if self.vectorizer is None else clone(self.vectorizer)
            counts = self.vectorizer_.fit_transform(X)
            self.n_features_in_ = counts.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        else:
            if not hasattr(self, "vectorizer_"):
                raise ValueError(
                    "X must be a matrix of counts as in fit, got texts; or give texts to fit, too"
                )
            counts = self.vectorizer_.transform(X)
        check_non_negative(counts, "AttentionClassifier (a vectorizer must count; see alternate_sign)")
        return TextRows.of(counts)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the tokens: those of the vectorizer, names of columns, or x0, x1, ..."""
        check_is_fitted(self, "attention_")
        if hasattr(self, "vectorizer_"):
            return self.vectorizer_.get_feature_names_out()
        if hasattr(self, "feature_names_in_"):
            return self.feature_names_in_
        return np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)

    # -- the learned tokens -------------------------------------------------------------------------------

    def explain(self, text: Any, label: Any = None) -> explanations.Explanation:
        """Explain a score by the tokens of the text: share of attention, value and contribution.

        The score is that of the predicted class, or of ``label``.
        """
        check_is_fitted(self, "attention_")
        whole = hasattr(self, "vectorizer_")
        rows = self._rows([text] if whole else _one_row(text, self.n_features_in_))
        if not len(rows.data):
            raise ValueError(
                "text must hold a token that the model knows, got none; its prediction is that of the "
                "background"
            )
        scores = self._scores(rows, self._model, self._top)[0]
        predicted = int(self._labels(scores)[0])
        k = predicted if label is None else explanations.class_number(self, label)
        columns, shares = self._attended(rows)
        values = explanations.column_for(self._model[:, 1:], k)[columns]
        names, counts = [*self.get_feature_names_out(), explanations.BACKGROUND], np.append(rows.data, 1.0)
        parts = [
            explanations.TokenPart(str(names[j]), float(n), float(s), float(v), float(s * v))
            for j, n, s, v in zip(columns.tolist(), counts, shares, values, strict=True)
            if s > 0.0
        ]
        parts.sort(key=lambda part: (-abs(part.contribution), part.token))
        contributions = dict(zip(columns.tolist(), (shares * values).tolist(), strict=True))
        words, unknown = self._words(text, contributions) if whole else ((), 0)
        score = float(explanations.column_for(scores, k)[0])
        probability = expit(score) if scores.shape[1] == 1 else softmax(scores[0])[k]
        classes = self.classes_.tolist()
        return explanations.Explanation(
            classes[k], float(probability), score, tuple(parts), words, unknown, classes[predicted]
        )

    def _attended(self, rows: TextRows) -> tuple[np.ndarray, np.ndarray]:
        """Columns of one text, the background last, with their shares of attention, 0 outside the top."""
        amounts = np.append(rows.data * self._model[rows.indices, 0], self._model[-1, 0])
        columns = np.append(rows.indices, len(self._model) - 1)
        if self._top:
            strength = np.array([compiled.telling(self._model, int(j)) for j in columns]) * amounts
            strength[-1] = np.inf
            places = np.empty(len(columns), np.int64)
            count = compiled.keep(strength, len(columns), self._top + 1, places)
            amounts[np.setdiff1d(np.arange(len(columns)), places[:count])] = 0.0
        return columns, amounts / amounts.sum()

    def _words(self, text: Any, contributions: dict[int, float]) -> tuple[tuple[tuple[str, float], ...], int]:
        """The words in order, each with its part of the contributions; how many are in no known token."""
        tokens = tokens_of(read_documents([text]), 1)
        spelled = tokens.spell(np.arange(len(tokens.hashes)))
        if not hasattr(self.vectorizer_, "columns_of"):
            return tuple((word, 0.0) for word in spelled), 0
        columns, names = self.vectorizer_.columns_of(text), self.get_feature_names_out()
        times = Counter(j for j, _ in columns)
        # A token that was given in a list may hold spaces, so its level has the number of its words.
        ends = np.cumsum([len(level) for level in self.vectorizer_._kept])
        parts, is_known = np.zeros(len(spelled)), np.zeros(len(spelled), bool)
        for j, at in columns:
            length = names[j].count(" ") + 1
            if not isinstance(text, str):
                length = int(self.vectorizer_.ngram_range[0] + np.searchsorted(ends, j, side="right"))
            parts[at : at + length] += contributions[j] / times[j] / length
            is_known[at : at + length] = True
        return tuple(zip(spelled, parts.tolist(), strict=True)), int((~is_known).sum())

    def top_tokens(self, n: int = 10, label: Any = None) -> explanations.TokenRanking:
        """Rank the tokens that the model selects for a class, or for each class.

        Args:
            n: number of tokens per class.
            label: the class; all classes by default.

        Returns:
            The ranking; its ``words`` are ordered by class and then by weight.
        """
        check_is_fitted(self, "attention_")
        n = expect.whole("n", n, 1)
        classes = range(len(self.classes_)) if label is None else [explanations.class_number(self, label)]
        names, mass = self.get_feature_names_out(), self._model[:-1, 0]
        total, words = self._counts.sum(axis=1), []
        for k in classes:
            values = explanations.column_for(self.values_, k)
            if self.values_.shape[1] > 1:
                values = values - self.values_.mean(axis=1)
            pull = np.where(values > 0, mass * values, -np.inf)
            words += [
                explanations.Word(
                    str(names[j]),
                    self.classes_.tolist()[k],
                    float(self._counts[j, k] / total[j]) if total[j] else math.nan,
                    float(total[j]),
                    float(self.attention_[j]),
                    float(values[j]),
                )
                for j in np.argsort(-pull, kind="stable")[:n].tolist()
                if np.isfinite(pull[j])
            ]
        return explanations.TokenRanking(tuple(words))

    def evaluate_top_k(
        self, X: Any, y: Any = None, k: int = 10, by: str = "contribution"
    ) -> explanations.TopKReport:
        """Predict from the k most important tokens of each text alone.

        Args:
            X: texts, as in `predict`.
            y: labels; without them the report has no accuracies.
            k: number of tokens to keep per text.
            by: what ranks the tokens of a text, "contribution" or "attention".

        Returns:
            The predictions, their accuracy and how often they agree with those from all tokens.
        """
        check_is_fitted(self, "attention_")
        k = expect.whole("k", k, 1)
        expect.one_of("by", by, ("contribution", "attention"))
        rows = self._rows(X)
        full = self._labels(self._scores(rows, self._model, self._top)[0])
        scores, attended, needed = self._scores(rows, self._model, k, by == "contribution", ATTENDED)
        short = self._labels(scores)
        means = float(np.mean(short == full)), float(attended.mean()), float(needed.mean())
        accuracies: list[float] = []
        if y is not None:
            truth = np.asarray(y)
            if len(truth) != len(rows):
                raise ValueError(f"y must have {len(rows)} labels, one per text, got {len(truth)}")
            accuracies = [float(np.mean(self.classes_[codes] == truth)) for codes in (short, full)]
        return explanations.TopKReport(k, by, self.classes_[short], *means, *accuracies)

    def word_map(self, label: Any = None) -> explanations.WordMap:
        """Return value and attention of all tokens, as in paper A's first figure."""
        check_is_fitted(self, "attention_")
        k = explanations.class_number(self, label)
        x, counts = self.statistics_.posterior_difference[:, k], self._counts.sum(axis=1)
        names, values = self.get_feature_names_out(), explanations.column_for(self.values_, k)
        return explanations.WordMap(self.classes_.tolist()[k], names, values, self.attention_, x, counts)

    @property
    def statistics_(self) -> explanations.TextStatistics:
        """Comparison of the fitted logits and values with the posterior difference of each token."""
        check_is_fitted(self, "attention_")
        return explanations.TextStatistics(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one file without code in it, for `load`."""
        check_is_fitted(self, "attention_")
        model_file.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> AttentionClassifier:
        """Read a model that `save` wrote; whatever a file holds, no code of it is run."""
        return model_file.load(AttentionClassifier, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        return tags
