"""Which words matter: words as written, predictions on new text, a warning before a bare corpus."""

import math
import warnings

import numpy as np
import pytest

import hardmax as hm
from hardmax.embeddings import text_corpus

pytest.importorskip("snowballstemmer")

REVIEWS = [
    ("Really good value for money, really!", 1),
    ("Money really well spent", 1),
    ("Monies wasted: awful", -1),
    ("An awful, awful film", -1),
    ("Really lovely film", 1),
    ("Awful. My money back!", -1),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    file = tmp_path_factory.mktemp("words") / "mine.csv"
    lines = [f'"{text}",{"positive" if label > 0 else "negative"}' for text, label in REVIEWS]
    file.write_text("\n".join(["text,label", *lines]))
    return text_corpus(file, min_count=1)


@pytest.fixture(scope="module")
def trained(made):
    return hm.embeddings.minibatch.train_embeddings(
        made.corpus, 16, hm.optim.AdamW(0.05), epochs=100, batch=3, rng=0
    )


def test_words_are_shown_as_written_and_not_as_stems(made):
    stems = dict(zip(made.corpus.vocabulary, made.corpus.written, strict=True))
    assert (stems["realli"], stems["monei"], stems["aw"]) == ("really", "money", "awful")
    assert [made.corpus.word(s) for s in range(2)] == ["really", "good"]


def test_the_cache_gives_the_same_words_back(made, tmp_path):
    file = tmp_path / "again.csv"
    file.write_text("text,label\nReally good,positive\nMoney,negative\n")
    first, second = text_corpus(file, min_count=1), text_corpus(file, min_count=1)
    assert first.corpus.written == second.corpus.written == ("really", "good", "money")
    assert second.tokens(["MONEY!"]) == [["monei"]]


def test_the_words_that_matter(trained):
    best, worst = trained.top(3, by="positive"), trained.top(1, by="negative")
    assert "really" in [each.word for each in best]
    assert [(each.word, each.occurrences, each.posterior_difference) for each in worst] == [
        ("awful", 4, -1.0)
    ]
    assert [each.value for each in best] == sorted((each.value for each in best), reverse=True)
    shown = str(trained.top(2))
    assert shown.splitlines()[0].split() == ["word", "E", "p", "E", "v", "count", "x"]
    assert len(shown.splitlines()) == 3
    assert "<td>" in trained.top(2)._repr_html_()
    with pytest.raises(ValueError, match="by must be one of"):
        trained.top(2, by="size")


def test_predictions_on_new_text(made, trained):
    texts = ["REALLY?! Really.", "awful awful", "an unheard-of thing"]
    up, down, unknown = trained.predict(made.tokens(texts))
    assert (up.label, up.word, down.label, down.word) == (1, "really", -1, "awful")
    assert (unknown.label, unknown.word) == (None, None)
    assert math.isnan(unknown.score)
    assert up.probability == pytest.approx(1 / (1 + math.exp(-up.score)))


def test_a_prediction_is_the_output_of_the_model(made, trained):
    corpus = made.corpus
    scores = [each.score for each in trained.predict([s.tolist() for s in corpus.sequences()])]
    losses = np.log1p(np.exp(-corpus.signs * np.array(scores)))
    assert losses.mean() == pytest.approx(trained.loss, rel=1e-12)


class Tensor:
    """As torch's: iterating gives tensors of one number, tolist plain numbers."""

    def __init__(self, content):
        self.content = np.asarray(content)

    @property
    def shape(self):
        return self.content.shape

    def __iter__(self):
        return (Tensor(each) for each in self.content)

    def __len__(self):
        return len(self.content)

    def tolist(self):
        return self.content.tolist()


class Series:
    """As a column of pandas whose index does not begin at 0."""

    def __init__(self, content):
        self.content = content

    def __iter__(self):
        return iter(self.content)

    def __len__(self):
        return len(self.content)

    def __getitem__(self, key):
        raise KeyError(key)

    def tolist(self):
        return list(self.content)


def test_tensors_columns_and_series(made, trained):
    plain = trained.predict([[0, 1], [2, 3]])
    ids = np.array([[0, 1], [2, 3]])
    for given in (ids, ids[:, :, None], Tensor(ids), [Tensor(row) for row in ids], Tensor(ids[:, :, None])):
        assert trained.predict(given) == plain
    texts = ["REALLY?! Really.", "awful"]
    assert made.tokens(Series(texts)) == made.tokens(texts) == made.tokens(np.array(texts))
    assert trained.predict(Series(["realli"])) == trained.predict(["realli"])


def test_what_cannot_be_predicted_is_said(trained):
    with pytest.raises(ValueError, match="numbers from 0 to"):
        trained.predict([[10**6]])
    with pytest.raises(ValueError, match="sequences"):
        trained.predict([3])
    numbers = hm.Corpus.from_sequences([[0, 1], [2, 1]], [1, -1])
    plain = hm.embeddings.minibatch.train_embeddings(
        numbers, 4, hm.optim.AdamW(0.1), epochs=2, batch=2, rng=0
    )
    with pytest.raises(ValueError, match="give token numbers"):
        plain.predict(["a b"])
    assert len(plain.predict([[0, 1]])) == 1


def test_a_default_that_leaves_next_to_nothing_is_warned_of(tmp_path):
    """200 reviews, and min_count=50 leaves a handful of their tokens."""
    rng = np.random.default_rng(0)
    words = [f"word{k}" for k in range(400)]
    lines = [
        f"common {' '.join(rng.choice(words, 12))},{('positive', 'negative')[k % 2]}" for k in range(200)
    ]
    file = tmp_path / "few.csv"
    file.write_text("\n".join(["text,label", *lines]))
    with pytest.warns(
        UserWarning, match=r"min_count=50 leaves 1 of \d+ distinct tokens.*such as min_count=2"
    ) as told:
        made = text_corpus(file)
    assert str(told[0].message) in made.report.notes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert text_corpus(file, min_count=2).report.notes == ()
