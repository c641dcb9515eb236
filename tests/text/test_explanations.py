"""Explanations sum to what they explain, name what was planted, and say what they are worth."""

import numpy as np
import pytest

from hardmax.text import AttentionClassifier


@pytest.fixture(scope="module")
def model(reviews):
    (texts, labels), _ = reviews
    return AttentionClassifier().fit(texts, np.where(labels == 1, "good", "bad"))


@pytest.mark.parametrize("settings", [{}, {"top_k": 4}, {"solver": "adagrad", "ngram_range": (1, 3)}])
def test_contributions_sum_to_the_score(reviews, settings):
    (texts, labels), (more, _) = reviews
    model = AttentionClassifier(**settings).fit(texts, labels)
    for text in more[:10]:
        found = model.explain(text)
        score = model.decision_function([text])[0]
        assert found.score == (score if found.label == 1 else -score)
        assert sum(part.contribution for part in found.parts) == pytest.approx(found.score, abs=1e-12)
        assert sum(part.share for part in found.parts) == pytest.approx(1.0, abs=1e-12)
        assert all(p.contribution == pytest.approx(p.share * p.value, abs=1e-12) for p in found.parts)
        assert found.probability == pytest.approx(model.predict_proba([text])[0].max(), abs=1e-12)
        background = sum(part.contribution for part in found.parts if part.token == "(background)")
        assert sum(each for _, each in found.words) == pytest.approx(found.score - background, abs=1e-9)


def test_several_classes_are_explained_one_by_one(draw):
    texts, labels = draw(300, 0, classes=3)
    model = AttentionClassifier(ngram_range=(1, 1)).fit(texts, labels)
    found = [model.explain(texts[0]), *(model.explain(texts[0], label=k) for k in range(3))]
    scores = model.decision_function(texts[:1])[0]
    assert found[0].label == scores.argmax() == labels[0]
    for k in range(3):
        assert found[k + 1].score == scores[k]
        assert sum(part.contribution for part in found[k + 1].parts) == pytest.approx(scores[k], abs=1e-12)
    for k, own in enumerate("abc"):
        assert all(word.token.startswith(f"{own}word") for word in model.top_tokens(5, label=k).words)


def test_what_was_planted_is_found(draw):
    words = AttentionClassifier(ngram_range=(1, 1)).fit(*draw(400, 0)).top_tokens(8).words
    assert {word.token[:5] for word in words if word.label == 0} == {"aword"}
    assert {word.token[:5] for word in words if word.label == 1} == {"bword"}
    assert all(word.posterior == 1.0 and word.occurrences > 1 for word in words)
    pulls = [np.exp(word.logit) * word.value for word in words[:8]]
    assert pulls == sorted(pulls, reverse=True)


def test_evaluate_top_k_counts(model, reviews):
    _, (more, truth) = reviews
    named = np.where(truth == 1, "good", "bad")
    everything = model.evaluate_top_k(more, named, 10_000)
    assert everything.agreement == 1.0
    assert everything.attended == pytest.approx(1.0, abs=1e-12)
    assert everything.accuracy == everything.full_accuracy == model.score(more, named)
    few, none = model.evaluate_top_k(more, named, 3), model.evaluate_top_k(more, k=3)
    assert few.attended < 0.8
    assert few.cost == few.full_accuracy - few.accuracy
    assert none.accuracy is None
    attended = model.evaluate_top_k(more, named, 3, by="attention")
    assert attended.attended >= few.attended
    assert 0.3 < few.needed < 1.0


def test_needed_is_a_share_of_tokens():
    model = AttentionClassifier().fit(np.eye(4), [0, 1, 0, 1])
    model.attention_ = np.log([81.0, 9.0, 9.0, 1.0])
    model._ready()
    assert model.evaluate_top_k(np.ones((1, 4))).needed == 0.5


@pytest.mark.parametrize("shown", ["explain", "important", "keep"])
def test_it_shows_itself(model, reviews, tmp_path, shown):
    _, (more, _) = reviews
    found = {
        "explain": lambda: model.explain(more[0]),
        "important": lambda: model.top_tokens(3),
        "keep": lambda: model.evaluate_top_k(more, k=3),
    }[shown]()
    assert "\n" not in repr(found)
    assert "\n" in str(found)
    assert "<pre" in found._repr_html_()
    found.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "http" not in page.replace("http-equiv", "")  # one page that needs nothing else
    if shown == "explain":
        assert "aword" in page or "bword" in page


def test_markup_in_a_text_stays_text(reviews):
    words = [["[bold]", "<script>"], ["plain", "text"]] * 5
    model = AttentionClassifier(min_df=1).fit(words, [0, 1] * 5)
    found = model.explain(words[0])
    assert "[bold]" in str(found)
    assert "<script>" not in found._repr_html_()


def test_the_map_of_words(model, tmp_path):
    found = model.word_map("good")
    pull = np.exp(found.logit) * found.value
    assert "bword" in found.tokens[pull.argmax()]
    assert "aword" in found.tokens[pull.argmin()]
    found.save(tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 10_000


def test_statistics_follow_the_theory(model, reviews):
    found = model.statistics_
    clear = found.of("good")
    assert clear.sign_accuracy(0.5) > 0.95
    assert clear.r_v > 0.7
    assert clear.deciles.top > clear.deciles.bottom
    assert found.posterior_difference == pytest.approx(-found.posterior_difference[:, ::-1], nan_ok=True)
    assert not found.assumption_4.holds
    assert "one length" in str(found.assumption_4.witness)
    assert found.max_margin is None


def test_a_corpus_of_the_theory_has_its_max_margin_direction():
    """Keys are unit vectors: p = (1, 1, -2)/3 is the shortest that lifts both tokens 1 above the neutral."""
    texts = [["good", "film"], ["bad", "film"]] * 10
    model = AttentionClassifier(ngram_range=(1, 1)).fit(texts, [1, 0] * 10)
    found = model.statistics_
    assert found.assumption_4.holds
    assert found.max_margin.is_certified
    names = model.get_feature_names_out().tolist()
    p = dict(zip(names, found.max_margin.p, strict=True))
    assert p == pytest.approx({"good": 1 / 3, "bad": 1 / 3, "film": -2 / 3}, abs=1e-9)
    assert model.attention_[names.index("film")] < min(
        model.attention_[names.index(w)] for w in ("good", "bad")
    )


def test_refusals(model, reviews):
    _, (more, _) = reviews
    with pytest.raises(ValueError, match="text must hold a token that the model knows, got none"):
        model.explain("")
    with pytest.raises(ValueError, match=r"label must be one of \['bad', 'good'\], got 'so so'"):
        model.top_tokens(label="so so")
    with pytest.raises(ValueError, match="by must be one of contribution, attention, got 'value'"):
        model.evaluate_top_k(more, by="value")
    with pytest.raises(ValueError, match="y must have 200 labels, one per text, got 1"):
        model.evaluate_top_k(more, [1], 3)
