"""The pipeline A-DATA-6: its steps on text made to break them, and the short way against the plain loop."""

import itertools
import re
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

import hardmax as hm
from hardmax._lib.extras import install
from hardmax.data.text import gathering
from hardmax.data.text.words import plain, split_words

from .conftest import STOP, assert_same, bags_of, plain_loop, synthetic, write_reviews

text_corpus = hm.embeddings.text_corpus


def test_cleaning() -> None:
    cases = {
        "Great<br /><br />film": "great film",
        "don't, REALLY; 8/10 _x_": "dont really 810 x",
        "I <3 it, 2 < 3 and 4 > 1": "i 3 it 2 3 and 4 1",
        "a<!-- <b>no</b> \n -->b <I>c</I>": "a b c",
        "R&amp;B &lt;tag&gt; &nosuch; AT&T": "rb tag nosuch att",
        "“curly” – dash… ’tis": "curly dash tis",
        "cafe\u0301 CAFÉ": "café café",
        "zero\u200bwidth soft\xadhyphen \ufeffbom": "zerowidth softhyphen bom",
        "no\xa0break\u2028line\x1ffeed": "no break line feed",
        "heart ❤\ufe0f 1\ufe0f\u20e3 \ud83d lone": "heart 1 lone",
        "हिन्दी": "हिन्दी",
    }
    for raw, clean in cases.items():
        assert " ".join(plain(raw).split()) == clean
    words, numbers, sizes = split_words(["b a b", "", "!", "c a"])
    assert (words, list(numbers), list(sizes)) == (["b", "a", "c"], [0, 1, 0, 2, 1], [3, 0, 0, 2])


def test_every_step_by_hand(tmp_path: Path, stopwords: Path, vocabulary: Path) -> None:
    rows = [
        ("The acting is good! Good films.", 1),
        ("the a it...", -1),  # nothing but stop words
        ("", 1),
        ("It is bad: acted, bad film", -1),
        ("good", 1),
        ("zzz", -1),  # [UNK], and rare
    ]
    file = write_reviews(tmp_path / "six.csv", rows)
    made = text_corpus(file, stopwords=stopwords, tokenizer=vocabulary, min_count=2, workers=1)
    assert made.corpus.vocabulary == ("act", "good", "film", "bad")
    assert made.corpus.matrix.toarray().tolist() == [[1, 2, 1, 0], [1, 0, 1, 2], [0, 1, 0, 0]]
    assert made.corpus.labels.tolist() == [1, -1, 1]
    assert made.places.tolist() == [0, 3, 4]
    assert made.report == hm.embeddings.TextReport(
        read=6,
        emptied=3,
        reviews=3,
        words=17,
        distinct_words=11,
        stopped=7,
        tokens=10,
        purged=1,
        kept=9,
        distinct_tokens=5,
        vocabulary=4,
    )
    # The cut comes before the purge: what is cut does not make a token frequent.
    cut = text_corpus(file, stopwords=stopwords, tokenizer=vocabulary, min_count=2, max_tokens=2, workers=1)
    assert bags_of(cut.corpus) == ([{"act": 1, "good": 1}, {"act": 1}, {"good": 1}], [1, -1, 1])
    assert (cut.report.tokens, cut.report.cut, cut.report.purged, cut.report.kept) == (10, 4, 2, 4)
    whole = text_corpus(file, stopwords=stopwords, stem=False, min_count=1, workers=1)
    assert whole.corpus.vocabulary == ("acting", "good", "films", "bad", "acted", "film", "zzz")
    sizes = text_corpus(file, stopwords=stopwords, min_count=1, char_range=(1, 11), workers=1)
    assert (sizes.report.short, sizes.report.long, sizes.report.emptied) == (1, 2, 1)
    assert sizes.places.tolist() == [4, 5]


TRICKY = st.text(
    st.one_of(
        st.sampled_from("aabceosAB   \n\t.,'<>/&;-_#\x00\x1c\x85\xa0\xad\u0301\u200b\u4e2dßΣςİéÉ’½²\ud800"),
        st.characters(exclude_characters="\r"),
    ),
    max_size=60,
)
WORDY = st.lists(
    st.sampled_from(
        [
            "film",
            "Films!",
            "good",
            "acting",
            "act-or",
            "the",
            "it's",
            "s",
            "<br />",
            "actors" * 20,
            "[CLS]",
            "##s",
        ]
    ),
    max_size=12,
).map(" ".join)


@given(
    texts=st.lists(TRICKY | WORDY, min_size=1, max_size=8),
    least=st.integers(1, 3),
    most=st.sampled_from([None, 3]),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_short_way_is_the_plain_loop(
    tmp_path: Path, vocabulary: Path, stopwords: Path, texts: list[str], least: int, most: int | None
) -> None:
    """WordPiece on distinct words is WordPiece on whole texts."""
    reviews = [(text, 1 - 2 * (k % 2)) for k, text in enumerate(texts)]
    file = tmp_path / "tricky.jsonl"  # which can hold any string
    lines = [
        f'{{"text": {hm_json(text)}, "label": {y}}}\n'
        for text, y in [*reviews, ("film", 1), ("film", -1), ("film", 1)]
    ]
    file.write_text("".join(lines))
    reviews += [("film", 1), ("film", -1), ("film", 1)]
    whole = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
    made = text_corpus(
        file, stopwords=stopwords, tokenizer=vocabulary, min_count=least, max_tokens=most, workers=1
    )
    assert bags_of(made.corpus) == plain_loop(reviews, STOP, whole, least, most)
    report = made.report
    assert report.tokens - report.cut - report.purged == report.kept
    assert report.reviews + report.emptied == report.read == len(reviews)


def hm_json(text: str) -> str:
    return '"' + "".join(f"\\u{unit:04x}" for unit in _units(text)) + '"'


def _units(text: str) -> list[int]:
    content = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(content[at : at + 2], "little") for at in range(0, len(content), 2)]


def test_removed_characters_are_those_of_unicode() -> None:
    """No punctuation survives, and no letter, number or white space is lost."""
    for code in range(0, sys.maxunicode + 1, 7):
        letter = chr(code)
        kind = unicodedata.category(letter)[0]
        left = plain(f"x{letter}x")
        if letter.isspace():
            assert len(left.split()) == 2
        elif kind in "PSC":
            assert left == "xx"
        elif kind in "LN":
            assert left == unicodedata.normalize("NFC", f"x{letter}x".lower())


def test_workers_and_chunks_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocabulary: Path, stopwords: Path
) -> None:
    file = write_reviews(tmp_path / "some.csv", synthetic(400, seed=0))
    options = {"stopwords": stopwords, "tokenizer": vocabulary, "min_count": 5}
    calls: list[tuple[int, int]] = []
    one = text_corpus(file, workers=1, progress=lambda *call: calls.append(call), **options)  # type: ignore[arg-type]
    assert calls == sorted(calls)
    assert calls[-1] == (1000, 1000)
    monkeypatch.setattr(gathering, "CHUNK", 2500)
    monkeypatch.setattr("hardmax.data.text.making.BLOCK", 50)
    monkeypatch.setenv("HARDMAX_CACHE", str(tmp_path / "other"))
    assert_same(one, text_corpus(file, workers=3, **options))  # type: ignore[arg-type]
    assert len(list((tmp_path / "other").rglob("*/[0-9]*"))) > 10
    reference = plain_loop(
        synthetic(400, seed=0), STOP, BertWordPieceTokenizer(str(vocabulary), lowercase=True), 5
    )
    assert bags_of(one.corpus) == reference


def test_own_function_as_tokenizer(tmp_path: Path, stopwords: Path, cache: Path) -> None:
    file = write_reviews(tmp_path / "some.csv", synthetic(30, seed=1))

    def pairs(text: str) -> list[str]:
        words = text.split()
        return [f"{a}_{b}" for a, b in itertools.pairwise(words)]

    made = text_corpus(file, stopwords=stopwords, tokenizer=pairs, min_count=2, max_tokens=9)
    assert bags_of(made.corpus) == plain_loop(synthetic(30, seed=1), STOP, pairs, 2, 9)
    assert not list(cache.rglob("corpus-*"))  # a function has no content to be found by
    # numbers, a text's letters, the keys of what transformers' tokenizers answer, and nothing
    for answer in ([1, 2], "a text", {"input_ids": [1]}, None):
        with pytest.raises(ValueError, match="tokenizer must give the tokens of a text as a list of strings"):
            text_corpus(file, tokenizer=lambda text, answer=answer: answer)  # type: ignore[misc]


def test_sample(tmp_path: Path) -> None:
    file = write_reviews(tmp_path / "some.csv", [(f"good film{k}", 1 - 2 * (k % 2)) for k in range(200)])
    drawn = [text_corpus(file, min_count=1, sample=40, rng=seed, workers=1) for seed in (0, 0, 1)]
    assert_same(drawn[0], drawn[1])
    assert drawn[0].places.tolist() != drawn[2].places.tolist()
    for made in drawn:
        assert made.report.unsampled == 160
        assert (np.diff(made.places) > 0).all()
        assert 60 < made.places.mean() < 140  # uniform: 99.5 +- 9 expected
    assert text_corpus(file, min_count=1, sample=200, workers=1).report.unsampled == 0


def test_the_paper_s_settings(tmp_path: Path, vocabulary: Path) -> None:
    stars = [("good " * 220, 5), ("bad " * 300, 2), ("so " * 400, 3), ("good", 4), ("bad " * 400, 1)]
    (tmp_path / "yelp.csv").write_text("stars,text\n" + "".join(f"{s},{text}\n" for text, s in stars))
    yelp = hm.embeddings.yelp_corpus(tmp_path)
    assert (yelp.corpus.labels.tolist(), yelp.corpus.counts.tolist()) == ([1, -1], [220, 300])
    assert (yelp.report.unlabelled, yelp.report.short, yelp.report.long) == (1, 1, 1)
    assert yelp.report.notes == ()
    (tmp_path / "IMDB Dataset.csv").write_text("review,sentiment\nActors acted,positive\nBad,negative\n")
    assert hm.embeddings.imdb_corpus(tmp_path, min_count=1).corpus.vocabulary == ("act", "##or", "bad")
    vocabulary.unlink()
    bare = hm.embeddings.imdb_corpus(tmp_path, min_count=1)
    assert bare.corpus.vocabulary == ("actor", "act", "bad")
    assert "tokens are stems" in bare.report.notes[0]
    assert "note: tokens are stems" in str(bare.report)


def test_refusals(tmp_path: Path, stopwords: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_reviews(tmp_path / "two.csv", [("good film", 1), ("bad film", -1)])
    wrong: list[tuple[str, dict[str, object]]] = [
        ("min_count: no token occurs at least 50 times among 4, the most frequent occurs 2", {}),
        ("char_range must be a tuple of 2 values", {"char_range": 5}),
        ("char_range must be the shortest and the longest", {"char_range": (5, 1)}),
        ("no review is left of 2: 0 without a label, 2 too short", {"char_range": (100, 200)}),
        ("max_tokens must be an integer of at least 1", {"max_tokens": 0}),
        ("workers must be", {"workers": 0}),
        ("tokenizer must be 'words', a function, or a WordPiece vocabulary", {"tokenizer": "nowhere.txt"}),
        ("is not a WordPiece vocabulary", {"tokenizer": stopwords}),
        ("tokenizer must be the name of a file or a function", {"tokenizer": 5}),
        ("stopwords must be a file of words", {"stopwords": "nowhere.txt"}),
    ]
    for message, options in wrong:
        with pytest.raises(ValueError, match=re.escape(message)):
            text_corpus(file, **options)  # type: ignore[arg-type]
    blank = write_reviews(tmp_path / "blank.csv", [("the", 1), ("", -1)])
    with pytest.raises(ValueError, match="no token is left in 2 reviews"):
        text_corpus(blank)
    with pytest.raises(FileNotFoundError, match="No such file"):
        text_corpus([file, tmp_path / "nowhere.csv"])
    with pytest.raises(ValueError, match="at least one file"):
        text_corpus([])
    alike = text_corpus(write_reviews(tmp_path / "alike.csv", [("good", 1), ("fine", 1)]), min_count=1)
    assert alike.report.notes == ("all 2 reviews of the corpus have the label +1",)
    apostrophe = tmp_path / "stop2.txt"
    apostrophe.write_text("don't\nthe\n")
    noted = text_corpus(file, stopwords=apostrophe, min_count=1).report.notes
    assert len(noted) == 1
    assert noted[0].startswith('1 of 2 stop words hold punctuation, such as "don\'t"')
    for package, options in {
        "snowballstemmer": {"stopwords": stopwords, "max_tokens": 7},
        "sklearn.feature_extraction.text": {},
        "tokenizers": {"tokenizer": write_vocabulary(tmp_path)},
    }.items():
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, package, None)
            with pytest.raises(ImportError, match=re.escape(install("text"))):
                text_corpus(file, min_count=1, **options)  # type: ignore[arg-type]


def write_vocabulary(folder: Path) -> Path:
    path = folder / "pieces.txt"
    path.write_bytes(b"[UNK]\r\nfilm\r\ngood\r\n")
    return path


@pytest.mark.slow
def test_real_reviews(shared_data: Path, tmp_path: Path) -> None:
    """The Yelp files at hand as the addendum counts them, and a slice of IMDB against the plain loop."""
    yelp = hm.embeddings.yelp_corpus(shared_data)
    assert (yelp.corpus.n, int((yelp.corpus.labels > 0).sum()), yelp.corpus.S) == (1758, 1254, 998)
    assert (yelp.report.read, yelp.report.unlabelled, yelp.report.kept) == (20_000, 2522, 201_099)
    (imdb,) = hm.data.find_reviews(shared_data, "imdb")
    reader = hm.data.read_reviews(imdb)
    some = [(review.text, review.label or 0) for review, _ in zip(reader, range(150), strict=False)]
    file = write_reviews(tmp_path / "slice.csv", some)
    vocabulary = shared_data / "bert-base-uncased-vocab.txt"
    nltk = shared_data / "nltk_stopwords_english.txt"
    made = text_corpus(file, tokenizer=vocabulary, stopwords=nltk, min_count=5, max_tokens=200)
    whole = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
    assert bags_of(made.corpus) == plain_loop(some, set(nltk.read_text().split()), whole, 5, 200)
    assert made.report.cut > 0
    assert "stop words hold punctuation" in made.report.notes[0]
