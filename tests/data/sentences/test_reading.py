"""Files as people have them: packed, from other systems, with letters that only look alike, or broken."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.nexttoken import Samples, Sentences, analyze, read_sentences, write_sentences


@pytest.fixture
def write(tmp_path):
    def to(content, name="file.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return to


def lists(sentences):
    return [sentences.words(i) for i in range(sentences.n)]


def test_one_sentence_per_line_and_no_empty_ones(write):
    text = read_sentences(write("the cat sat\n\n   \n\tthe  dog \n"))
    assert lists(text) == [["the", "cat", "sat"], ["the", "dog"]]
    assert text.notes == ()


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_line_ends_of_all_systems(write, end):
    assert lists(read_sentences(write(f"a b{end}b a{end}"))) == [["a", "b"], ["b", "a"]]


def test_a_byte_order_mark_is_no_letter(write):
    text = read_sentences(write(b"\xef\xbb\xbfa b\nb a\n"))
    assert text.vocabulary == ("a", "b")
    assert "byte order mark" in text.notes[0]


@pytest.mark.parametrize(
    "suffix, pack", [("xz", lzma.compress), ("gz", gzip.compress), ("bz2", bz2.compress)]
)
def test_packed_files(write, suffix, pack):
    assert lists(read_sentences(write(pack(b"a b\n"), f"file.txt.{suffix}"))) == [["a", "b"]]
    packed = write(pack(b"[[3, 4]]"), f"file.json.{suffix}")
    assert lists(read_sentences(packed)) == [["3", "4"]]
    with pytest.raises(ValueError, match="cannot decompress"):
        read_sentences(write(pack(b"a b c d e f\n")[:-9], f"half.{suffix}"))
    with pytest.raises(ValueError, match="cannot decompress"):
        read_sentences(write(b"a b\n", f"text.{suffix}"))


def test_json_lists_of_words_or_ids(write):
    assert lists(read_sentences(write('[["a b", "c"], ["c"]]', "x.json"))) == [["a b", "c"], ["c"]]
    assert lists(read_sentences(write("[[7, 3], [3, 7]]\n", "x.txt"))) == [["7", "3"], ["3", "7"]]
    assert lists(read_sentences(write("[Enter Hamlet]\n[Exit]\n"))) == [["[Enter", "Hamlet]"], ["[Exit]"]]
    assert lists(read_sentences(write("[1, 2]\n"))) == [["[1,", "2]"]]


def test_unusual_spaces_separate_and_are_mentioned(write):
    text = read_sentences(write("10\u00a0km now\nnow\u2003then\n"))
    assert lists(text) == [["10", "km", "now"], ["now", "then"]]
    assert text.notes == ("2 unusual spaces, such as non-breaking ones, separate tokens like other spaces",)


def test_a_line_separator_of_unicode_does_not_end_the_sentence(write):
    assert lists(read_sentences(write("a\u2028b\x0cc\x85d\n"))) == [["a", "b", "c", "d"]]


@pytest.mark.parametrize(
    "first, second", [("caf\u00e9", "cafe\u0301"), ("cat", "c\u200bat"), ("c\u00adat", "cat")]
)
def test_words_that_only_look_alike_stay_apart_and_are_mentioned(write, first, second):
    text = read_sentences(write(f"{first} {second}\n"))
    assert text.vocabulary == (first, second)
    (note,) = text.notes
    assert note.startswith("1 words look like others")
    assert ascii(first) in note
    assert ascii(second) in note


def test_invisible_words_are_mentioned(write):
    text = read_sentences(write("a \u200b b\n"))
    assert text.notes == ("1 words are made of invisible characters only; they are tokens like others",)


@pytest.mark.parametrize(
    "content, name, words",
    [
        (b"", "x.txt", "at least one sentence"),
        (b"  \n\r\n", "x.txt", "at least one sentence"),
        (b"\xef\xbb\xbf", "x.txt", "at least one sentence"),
        (b"a b\nc \xff d\n", "x.txt", "line 2 must be in UTF-8, got byte 0xff"),
        (b"a \xed\xa0\x80\n", "x.txt", "line 1 must be in UTF-8, got byte 0xed"),
        ("a b\n".encode("utf-16"), "x.txt", "UTF-16"),
        (b"a\0b\n", "x.txt", "zero bytes"),
        (b"[[1, 2]", "x.json", "not valid JSON"),
        (b'{"a": 1}', "x.json", "list of lists"),
        (b"[1, 2]", "x.json", "list of lists"),
        (b"[]", "x.json", "at least one sentence"),
        (b'[["a", 1]]', "x.json", "all words or all integer ids"),
        (b"[[0.5, 1.5]]", "x.json", "got float"),
        (b"[[null]]", "x.json", "got NoneType"),
        (b'[["a", "\\ud800"]]', "x.json", "Unicode"),
        (b'[["a", ""]]', "x.json", "got ''"),
        (b"[" * 100_000, "x.json", "not valid JSON: it is nested"),
    ],
)
def test_broken_files_are_refused_in_words(write, content, name, words):
    path = write(content, name)
    with pytest.raises(ValueError, match=words) as caught:
        read_sentences(path)
    assert str(path) in str(caught.value)


def test_one_huge_line_is_cut_and_said_so(write):
    text = read_sentences(write(" ".join(f"w{i % 977}" for i in range(300_000))), max_length=50)
    assert (text.n, len(text.tokens), text.cut, text.cut_tokens) == (1, 50, 1, 299_950)
    assert text.notes[0].startswith("1 of 1 sentences were cut after 50 tokens, 299,950 tokens were left out")
    samples = Samples.from_sentences(text)
    assert (samples.n, samples.V, len(samples.tokens)) == (49, 50, 49 * 50 // 2)


def test_many_lines(write):
    lines = [f"w{i % 1009} w{(i * i) % 1013} w{i % 7}" for i in range(60_000)]
    analysis = analyze(read_sentences(write("\n".join(lines))))
    counts = {each.kind: each.count for each in analysis.violations}
    assert counts["nondeterministic"] > 1000
    assert analysis.trie.count[analysis.trie.samples].sum() == 120_000


def test_one_token_sentences_are_mentioned(write):
    text = read_sentences(write("a b\nc\n"))
    assert text.notes == ("1 sentences of one token have no next token and give no sample",)
    assert text.vocabulary == ("a", "b", "c")


def test_a_line_is_never_held_whole(write, monkeypatch):
    """2 kB of bz2 became 4 GB, because a line was read before its limit was checked."""
    import tracemalloc

    path = write(bz2.compress((b"a" * 1023 + b" ") * (64 << 10)), "bomb.txt.bz2")  # 64 MiB
    assert path.stat().st_size < 4_000
    tracemalloc.start()
    text = read_sentences(path, max_length=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (text.cut, text.cut_tokens) == (1, (64 << 10) - 10)
    assert peak < 16 << 20
    monkeypatch.setattr("hardmax._lib.reading.LARGEST_TEXT", 1 << 22)
    with pytest.raises(ValueError, match=r"bomb.*at most 4 MiB once unpacked"):
        read_sentences(path, max_length=10)


@pytest.mark.parametrize("content", ["x" * 3_000_000, "a " + "x" * 1_048_577 + " b", "\n".join("x" * 9)])
def test_words_have_a_longest_length(write, content):
    if len(content) < 100:
        assert read_sentences(write(content)).n == 9
        return
    with pytest.raises(ValueError, match="words must have at most 1,048,576 characters"):
        read_sentences(write(content))


def test_limits_of_what_is_kept(write, monkeypatch):
    path = write("a b c d e f\n" * 100)
    monkeypatch.setattr("hardmax.data.sentences.reading.MOST_TOKENS", 300)
    with pytest.raises(ValueError, match=r"at most 300 tokens, got more; choose a smaller `max_length"):
        read_sentences(path)
    assert read_sentences(path, max_length=3).n == 100
    monkeypatch.setattr("hardmax.data.sentences.reading.LARGEST_VOCABULARY", 2)
    with pytest.raises(ValueError, match=r"distinct tokens, got more; use less text"):
        read_sentences(path, max_length=3)


def test_json_beyond_its_limit(write, monkeypatch):
    monkeypatch.setattr("hardmax._lib.reading.LARGEST_JSON", 1 << 20)
    lists_of_ids = json.dumps([[1, 2]] * 300_000)
    for name in ("big.json", "big.txt"):
        with pytest.raises(ValueError, match="JSON must be at most 1 MiB"):
            read_sentences(write(lists_of_ids, name))
    assert read_sentences(write("[Enter Hamlet]\n" * 200_000)).n == 200_000


def test_a_sentence_too_long_to_check_is_refused_before_the_work(write):
    with pytest.raises(ValueError, match=r"choose a `max_length` below 800000"):
        analyze(read_sentences(write("a b " * 400_000)))


@given(st.text("ab \n\r\u00e9\u2003", max_size=60), st.integers(1, 7))
def test_pieces_do_not_matter(tmp_path_factory, text, size):
    path = tmp_path_factory.mktemp("pieces") / "file.txt"
    path.write_bytes(text.encode())
    expected = [
        line.split() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.split()
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hardmax._lib.reading.PIECE", size)
        if expected:
            assert lists(read_sentences(path)) == expected
        else:
            with pytest.raises(ValueError, match="at least one sentence"):
                read_sentences(path)


words = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=4
).filter(lambda word: not word.startswith(("[", "\ufeff")))


@given(
    st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=6),
    st.sampled_from(["txt", "json"]),
)
def test_what_is_written_is_read_back(tmp_path_factory, sentences, suffix):
    path = tmp_path_factory.mktemp("round") / f"file.{suffix}"
    write_sentences(path, Sentences.from_lists(sentences))
    assert lists(read_sentences(path)) == sentences


def test_names_that_cannot_hold_what_is_written(tmp_path):
    spaced = Sentences.from_lists([["a b", "c"]])
    with pytest.raises(ValueError, match=r"ends in \.json"):
        write_sentences(tmp_path / "x.txt", spaced)
    with pytest.raises(ValueError, match="unpacked"):
        write_sentences(tmp_path / "x.txt.xz", spaced)
    write_sentences(tmp_path / "x.json", spaced)
    assert json.loads((tmp_path / "x.json").read_text()) == [["a b", "c"]]
