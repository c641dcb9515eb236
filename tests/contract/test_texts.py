"""Texts: reading labeled files, the corpus of paper A's pipeline, and the classifier that shows its words."""

import gzip
import json

import numpy as np
import pytest

from . import formulas as f
from . import names as n

TEXTS, LABELS = ["good film", "a good one", "bad film", "a bad one"] * 5, ["+", "+", "-", "-"] * 5


@pytest.fixture(scope="module")
def model():
    return n.classifier(ngram_range=(1, 1)).fit(TEXTS, LABELS)


def test_reviews_and_labels(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text('stars,text\n5,"Good, really"\n3,So so\n1,Bad\n')
    assert [(each.label, each.text) for each in n.read_reviews(file)] == [
        (1, "Good, really"),
        (None, "So so"),
        (-1, "Bad"),
    ]
    with gzip.open(tmp_path / "mine.jsonl.gz", "wt") as lines:
        lines.write(
            "\n".join(json.dumps({"label": each, "text": f"They {each}"}) for each in ("won", "lost"))
        )
    assert [each.label for each in n.read_labeled(tmp_path / "mine.jsonl.gz")] == ["won", "lost"]
    (tmp_path / "IMDB Dataset.csv").touch()
    assert [path.name for path in n.find_reviews(tmp_path, "imdb")] == ["IMDB Dataset.csv"]


def test_the_pipeline_of_paper_a(tmp_path):
    """Markup and stop words go, words are stemmed, rare tokens go, long texts are cut."""
    file = tmp_path / "mine.csv"
    rows = ["review,sentiment", "Loved<br />truly,positive", "Hated it. Hated!,negative"]
    file.write_text("\n".join(rows) + "\n")
    made = n.text_corpus(file, min_count=1)
    assert made.corpus.vocabulary == ("love", "truli", "hate")
    assert made.corpus.matrix.toarray().tolist() == [[1, 1, 0], [0, 0, 2]]
    assert made.corpus.labels.tolist() == [1, -1]
    assert n.text_corpus(file, min_count=2).corpus.vocabulary == ("hate",)
    assert n.text_corpus(file, min_count=1, max_tokens=1).corpus.lengths.tolist() == [1, 1]
    swapped = n.text_corpus(file, min_count=1, label_map={"positive": -1, "negative": 1})
    assert swapped.corpus.labels.tolist() == [-1, 1]
    assert n.text_corpus(file, min_count=1, char_range=(15, 100)).report.short == 0
    assert made.tokens(["They LOVED this."]) == [["love"]]
    again = n.text_corpus(file, min_count=1)  # from the cache
    assert (again.corpus.matrix != made.corpus.matrix).nnz == 0


def test_the_papers_reviews(tmp_path):
    (tmp_path / "IMDB Dataset.csv").write_text("review,sentiment\nGreat!,positive\nDull,negative\n")
    made = n.imdb_corpus(tmp_path, min_count=1)
    assert made.corpus.vocabulary == ("great", "dull")
    (tmp_path / "yelp.csv").write_text(f"stars,text\n5,{'good ' * 200}\n1,{'bad ' * 250}\n1,bad\n")
    made = n.yelp_corpus(tmp_path)
    assert made.corpus.counts.tolist() == [200, 250]
    assert made.report.short == 1


def test_ngrams_are_counted():
    vectorizer = n.vectorizer(ngram_range=(1, 2), min_df=1)
    counts = vectorizer.fit_transform(["Not good!", "so GOOD, not bad"])
    names = vectorizer.get_feature_names_out().tolist()
    row = dict(zip(names, counts.toarray()[1].tolist(), strict=True))
    assert row == {name: int(name in "so good not bad" and name != "not good") for name in names}


def test_the_classifier_predicts(model):
    assert model.predict(["so good", "so bad"]).tolist() == ["+", "-"]
    proba = model.predict_proba(["so good", "so bad"])
    assert f.close(proba.sum(1), 1.0)
    assert f.close(np.log(proba), model.predict_log_proba(["so good", "so bad"]))
    assert model.score(TEXTS, LABELS) == 1.0
    decision = model.decision_function(["so good", "so bad"])  # of the second class, in log-odds
    assert f.close(proba[:, 1], 1 / (1 + np.exp(-decision)))


def test_an_explanation_adds_up(model):
    found = model.explain("a good film")
    assert (found.label, found.parts[0].token) == ("+", "good")
    assert sum(part.contribution for part in found.parts) == pytest.approx(found.score, abs=1e-12)
    assert sum(part.share for part in found.parts) == pytest.approx(1.0)
    assert found.unknown == 0


def test_important_tokens(model):
    found = n.top_tokens(model, 1).words
    assert [(each.token, each.label, each.occurrences) for each in found] == [
        ("good", "+", 10.0),
        ("bad", "-", 10.0),
    ]
    kept = n.evaluate_top_k(model, TEXTS, LABELS, k=1)
    assert (kept.accuracy, kept.full_accuracy, kept.agreement) == (1.0, 1.0, 1.0)
    drawn = model.word_map("+")
    assert str(drawn.tokens[drawn.value.argmax()]) == "good"
    found = n.classifier(ngram_range=(1, 1)).fit(["good film", "bad film"] * 10, [1, 0] * 10).statistics_
    assert found.assumption_4.holds
    assert found.max_margin.is_certified


def test_sparse_attention():
    few = n.classifier(ngram_range=(1, 1), top_k=1).fit(TEXTS, LABELS)
    assert few.predict(["so good", "so bad"]).tolist() == ["+", "-"]
    sharp = n.classifier(ngram_range=(1, 1), entropy_penalty=0.5).fit(TEXTS, LABELS)
    plain = n.classifier(ngram_range=(1, 1)).fit(TEXTS, LABELS)
    most = [max(part.share for part in each.explain("a good film").parts) for each in (sharp, plain)]
    assert most[0] >= most[1]


def test_a_classifier_survives_its_file(model, tmp_path):
    model.save(tmp_path / "model.npz")
    again = n.load_classifier(tmp_path / "model.npz")
    assert (again.predict_proba(TEXTS) == model.predict_proba(TEXTS)).all()


def test_answers(tmp_path):
    pairs = [("a good film", "+"), ("a bad film", "-")] * 20
    done = n.text_train(pairs, tmp_path / "model.npz", held_out=0)
    assert done.json()["classes"] == ["+", "-"]
    told = n.text_explain(tmp_path / "model.npz", "how good!").json()
    assert told["predicted"] == "+"
    assert sum(each["contribution"] for each in told["tokens"]) == pytest.approx(told["score"])
    assert n.text_top_tokens(done.classifier, n=1, label="-").json()["tokens"][0]["token"] == "bad"
