"""Punctuation marks at the ends of words, the same by every way of reading."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.data.sentences.punctuation import PUNCTUATION, apart, apart_text
from hardmax.data.sentences.reading import raw_sentences, read_sentences
from hardmax.data.sentences.streaming import count_part, parts_of, read_distinct, unpacked

TEXT = "She sings.\n«Don't stop!» (well-known)\r\n... -- x_\n$5 and 3.14, ¿no?\u00a0sí.\n"
LISTS = {
    "split": [
        ["She", "sings", "."],
        ["«", "Don't", "stop", "!", "»", "(", "well-known", ")"],
        [".", ".", ".", "-", "-", "x", "_"],
        ["$5", "and", "3.14", ",", "¿", "no", "?", "sí", "."],
    ],
    "strip": [["She", "sings"], ["Don't", "stop", "well-known"], ["x"], ["$5", "and", "3.14", "no", "sí"]],
    "keep": [line.split() for line in TEXT.splitlines()],
}


@pytest.mark.parametrize("how", PUNCTUATION)
def test_every_way_of_reading_gives_the_same_tokens(how: str, tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8", newline="")
    read = read_sentences(file, punctuation=how)
    assert [read.words(i) for i in range(read.n)] == LISTS[how]
    assert list(raw_sentences(file, 64, how)) == LISTS[how]
    for size in (5, 8, 2**20):
        found = read_distinct([file], 64, size=size, punctuation=how)
        assert found.vocabulary == read.vocabulary
        assert (found.n, found.longest) == (4, max(map(len, LISTS[how])))
    for part in parts_of([file], 64, punctuation=how):
        assert set(unpacked(count_part(part)["part"]).vocabulary) == set(read.vocabulary)
    file = tmp_path / "text.json"
    file.write_text(json.dumps(LISTS["keep"]), encoding="utf-8")
    assert list(raw_sentences(file, 64, how)) == LISTS[how]
    assert read_distinct([file], 64, punctuation=how).vocabulary == read.vocabulary


@given(st.lists(st.text(st.sampled_from("ab'.-(«\u3002"), min_size=1), max_size=6))
def test_text_and_words_agree(words: list[str]) -> None:
    for how in PUNCTUATION:
        assert apart_text(" ".join(words), how).split() == apart(words, how)
        assert apart(apart(words, how), how) == apart(words, how)


def test_sentences_are_cut_after_the_marks_are_split(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_text("a. b. c. d.\n")
    assert read_sentences(file, max_length=3, punctuation="split").words(0) == ["a", ".", "b"]
    assert list(raw_sentences(file, 3, "split")) == [["a", ".", "b"]]
    assert list(raw_sentences(file, 3, "strip")) == [["a", "b", "c"]]
    file.write_text("- " * 1_200_000 + "end. of it")  # longer than any word may be
    assert list(raw_sentences(file, 2, "strip")) == [["end", "of"]]


def test_a_million_marks_inside_a_word() -> None:
    word = "a" + "." * 1_000_000 + "b"
    assert apart_text(word, "strip") == word
    assert apart_text(word[:-1], "strip") == "a"


def test_a_text_of_marks_alone_has_no_sentence(tmp_path: Path) -> None:
    file = tmp_path / "marks.txt"
    file.write_text("...\n--\n")
    with pytest.raises(ValueError, match="at least one sentence with a token"):
        read_distinct([file], 64, punctuation="strip")
    with pytest.raises(ValueError, match="punctuation must be one of keep, split, strip, got 'no'"):
        read_sentences(file, punctuation="no")
