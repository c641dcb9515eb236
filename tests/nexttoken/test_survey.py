"""Texts of any size: distinct sentences say all that the raw ones do."""

from __future__ import annotations

import gzip
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax.app.results.next_token_check import check as ntp_check
from hardmax.app.results.session import Session
from hardmax.data.sentences import counting, streaming
from hardmax.data.sentences.distinct import Distinct, Making
from hardmax.data.sentences.samples import Trie
from hardmax.nexttoken import Sentences, analyze, read_sentences, walking
from hardmax.nexttoken.analysis import survey
from hardmax.nexttoken.realizable import realizable_part
from hardmax.nexttoken.walking import SAMPLES

LETTERS = "abcdef"
WHITE = [
    " ",
    "  ",
    "\t",
    "\u00a0",
    "\u3000",
    "\u2003",
    "\x0b",
    "\x1c",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "\u2028",
    "\x85",
]
LONG = ["abcdefgh", "abcdefghi", "xabcdefgh", "日本語", "abc" * 9, "abc" * 8 + "abd"]  # eight bytes are a key
words = st.sampled_from([*LETTERS, "ab", "ba", "é", "日本", "\u200b", "Ж", *LONG])
texts = st.lists(st.tuples(words, st.sampled_from([*WHITE, " ", " ", " ", "\n", "\n"])), max_size=60).map(
    lambda pairs: "".join(word + white for word, white in pairs)
)
lists = st.lists(st.lists(st.sampled_from(LETTERS), min_size=1, max_size=7), min_size=1, max_size=12)


def held(text: Distinct) -> tuple:
    """All that there is to know."""
    arrays = (text.rows, text.starts, text.counts, text.firsts)
    numbers = (text.n, text.max_length, text.cut, text.cut_tokens, text.odd, text.marked, text.notes)
    return text.encoded, *(each.tolist() for each in arrays), *numbers


@settings(deadline=None, max_examples=150)
@given(texts, st.integers(1, 40), st.integers(2, 6), st.booleans(), st.integers(1, 3))
def test_reading_is_that_of_the_plain_reader_for_any_block(
    tmp_path_factory, text, size, length, mark, workers
):
    path = tmp_path_factory.mktemp("text") / "file.txt"
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + text.encode())
    try:
        plain = read_sentences(path, max_length=length)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error).rpartition(": ")[2]):
            streaming.read_distinct([path], length, size=size, workers=workers)
        return
    found = streaming.read_distinct([path], length, size=size, workers=workers)
    assert held(found)[:5] == held(Distinct.of(plain))[:5]
    assert (found.n, found.cut, found.cut_tokens, found.notes) == (
        plain.n,
        plain.cut,
        plain.cut_tokens,
        plain.notes,
    )
    assert [found.words(s) for s in range(len(found.counts))] == list(
        map(list, dict.fromkeys(tuple(plain.words(i)) for i in range(plain.n)))
    )


@settings(deadline=None, max_examples=60)
@given(texts, st.lists(st.integers(0, 200), max_size=3), st.integers(3, 40))
def test_files_and_parts_of_them_are_one_text(tmp_path_factory, text, cuts, size):
    folder = tmp_path_factory.mktemp("text")
    lines = text.replace("\r", "\n").splitlines(keepends=True) or ["a\n"]
    bounds = sorted({0, len(lines), *(cut % (len(lines) + 1) for cut in cuts)})
    files = []
    for low, high in pairwise(bounds):
        files.append(folder / f"{low}.txt")
        files[-1].write_bytes("".join(lines[low:high]).encode())
    (folder / "all.txt").write_bytes("".join(lines).encode())
    try:
        whole = held(streaming.read_distinct([folder / "all.txt"], 5))
    except ValueError:
        return
    if all(path.read_bytes().endswith(b"\n") for path in files[:-1]):
        assert held(streaming.read_distinct(files, 5, size=7)) == whole
    made = Making(5)
    for part in streaming.parts_of([folder / "all.txt"], 5, size=size):
        made.add(streaming.unpacked(streaming.count_part(part)["part"]))
    assert held(streaming.finished(made, [])) == whole


def facts(sentences, n):
    """By dictionaries of prefixes: samples with counts, relations with their first sample, and what is lost,
    torn and outnumbered, in reading order."""
    prefixes = {}
    for raw in sentences:
        for k in range(1, len(raw) + 1):
            prefixes.setdefault(tuple(raw[:k]), []).append(raw)
    samples = {prefix: len(raws) for prefix, raws in prefixes.items() if len(prefix) > 1}
    relations, lost, heavy, children = {}, [], [], {}
    for prefix in samples:
        *sentence, y = prefix
        children.setdefault(prefix[:-1], []).append(prefix)
        deciding = [x for x in dict.fromkeys(sentence) if n.get(x) == y]
        if not deciding and len(sentence) > 1:
            lost.append(prefix)
        limit = sum(sentence.count(x) for x in deciding)
        for x in dict.fromkeys(sentence):
            if deciding and x not in deciding:
                heavy += [(prefix, x)] * (sentence.count(x) > limit)
                for above in deciding:
                    relations.setdefault((sentence[-1], above, x), prefix)
    torn = [prefix for prefix, some in children.items() if len(some) > 1]
    return samples, children, relations, lost, heavy, torn


@settings(deadline=None, max_examples=300)
@given(lists, st.booleans())
def test_the_walk_finds_what_a_dictionary_of_prefixes_holds(sentences, repair):
    text = Sentences.from_lists(sentences)
    found = survey(Distinct.of(text), repair=repair, workers=1)
    word = text.vocabulary
    n = {word[x]: word[y] for x, y in enumerate(found.n.tolist()) if y >= 0}
    samples, children, relations, lost, heavy, torn = facts(sentences, n)
    alone = {prefix[0]: some for prefix, some in children.items() if len(prefix) == 1}
    made_up = {word[x] for x in found.repaired.tolist()}
    assert made_up == (set(word) - set(alone) if repair else set())
    assert {x: y for x, y in n.items() if x not in made_up} == {
        x: some[0][1] for x, some in alone.items() if len(some) == 1
    }
    orders = found.orders
    assert {
        (word[q], word[o], word[x]): found.walk.text.sample(place)
        for q, o, x, place in zip(
            *(getattr(orders, name).tolist() for name in ("query", "above", "below", "witness")), strict=True
        )
    } == {key: {"sentence": " ".join(prefix[:-1]), "next": prefix[-1]} for key, prefix in relations.items()}
    told = {each.kind: each for each in found.violations}
    for kind, cases in (("nondeterministic", torn), ("unreachable", lost), ("assumption3", heavy)):
        assert (told[kind].count if kind in told else 0) == len(cases)
    for kind, shown in (("nondeterministic", torn), ("unreachable", [prefix[:-1] for prefix in lost])):
        witnesses = told[kind].witnesses if kind in told else ()
        assert [each["sentence"] for each in witnesses] == [" ".join(prefix) for prefix in shown[:3]]
    witnesses = told["assumption3"].witnesses if heavy else ()
    assert [(*each["sentence"].split(), each["next"], each["token"]) for each in witnesses] == [
        (*prefix, x) for prefix, x in heavy[:3]
    ]
    assert (found.samples, found.never_first) == (len(samples), len(word) - len(alone))
    assert found.teaches_attention == text.teach_attention
    trie = Trie.build(text)
    for uniform in (False, True):
        weight = trie.frequencies(uniform=uniform)
        assert found.frequencies(uniform=uniform) == ((weight.min(), weight.max()) if len(weight) else None)
    part = realizable_part(analyze(text, repair=repair))
    kept = [part.sentences.words(i) for i in range(part.sentences.n)] if part.sentences else []
    assert list(part.beginnings(map(text.words, range(text.n)))) == kept
    assert part.samples == sum(len(words) - 1 for words in kept)
    assert part.whole + part.cut == len(kept)
    assert part.whole == sum(list(part.beginnings([raw])) == [raw] for raw in sentences)
    assert part.of_samples == sum(samples.values())
    assert part.vocabulary == (len(part.sentences.vocabulary) if part.sentences else 0)
    assert part.teaches_attention == (part.sentences is not None and part.sentences.teach_attention)


@pytest.mark.parametrize("kinds", [40_000, 60])
def test_many_sentences_and_relations_outgrow_every_table(tmp_path, monkeypatch, kinds):
    """More words, sentences and relations than there is room for at first, in spans of a few sentences; and
    few words, so that many sentences share their beginnings."""
    monkeypatch.setattr("hardmax.nexttoken.walking.SHARE", 5000)
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{x}" for x in rng.integers(0, kinds, rng.integers(1, 5))) for _ in range(40_000)]
    path = tmp_path / "many.txt"
    path.write_text("\n".join(lines))
    text = read_sentences(path, max_length=64)
    plain, found = analyze(text), survey(streaming.read_distinct([path], 64, size=30_000))
    assert found.violations == plain.violations
    for name in ("query", "above", "below"):
        assert getattr(found.orders, name).tolist() == getattr(plain.orders, name).tolist()
    assert found.samples == len(Trie.build(text).samples)
    assert found.text.vocabulary == text.vocabulary


@pytest.mark.compiled
def test_sentences_of_one_hash_are_told_apart():
    """Among so many some have the same 31 bits; each is found again all the same."""
    rng = np.random.default_rng(0)
    tokens = np.unique(rng.integers(0, 1000, (300_000, 3)), axis=0)
    rng.shuffle(tokens)
    n = len(tokens)
    twice = np.concatenate([tokens, tokens[::-1]]).ravel()
    text = Distinct.of(Sentences(twice, 3 * np.arange(2 * n + 1), tuple(map(str, range(1000)))))
    hashes = [int(counting.mixed(np.int64(0), row)) for row in text.rows]
    assert len({*hashes}) < n == len(text.counts)
    assert (text.counts == 2).all()
    assert text.firsts.tolist() == list(range(n))


def test_a_line_longer_than_a_block(tmp_path):
    path = tmp_path / "line.txt"
    path.write_text("a b " * 5000 + "\nb a\n" + "c\u3000" * 3000)
    found = streaming.read_distinct([path], 4, size=1000)
    assert [found.words(s) for s in range(3)] == [list("abab"), list("ba"), list("cccc")]
    assert (found.cut, found.cut_tokens, found.odd) == (2, 9996 + 2996, 3000)


@pytest.mark.parametrize(
    "content, words",
    [
        (b"a b\n" * 9 + b"a \xff b\n", "line 10 must be in UTF-8, got byte 0xff (byte 38 of all)"),
        (b"a b\r" * 9 + b"a \xff b\r", "line 10 must be in UTF-8, got byte 0xff (byte 38 of all)"),
        (b"a b\r\n" * 9 + b"a \xff b\r\n", "line 10 must be in UTF-8, got byte 0xff (byte 47 of all)"),
        (b"a b\n" * 9 + b"a \0 b\n", "got zero bytes"),
        (b"\xff\xfea\0", "got UTF-16"),
        (b"a b\n" + b"x" * (2**20 + 1) + b"\n", "at most 1,048,576 characters"),
        (b" \n\n", "got none"),
        (b"", "got none"),
    ],
)
def test_refusals_name_the_file(tmp_path, content, words):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="must") as plain:
        read_sentences(path, max_length=64)
    with pytest.raises(ValueError, match="must") as found:
        streaming.read_distinct([path], 64, size=8 if len(content) < 100 else 2**18)
    assert words in str(found.value)
    assert str(found.value) == str(plain.value)


@pytest.mark.parametrize("size", range(1, 12))
def test_line_ends_that_are_cut_in_two_count_once(size, tmp_path, monkeypatch):
    content = b"a\r\nb\rc\n\r\n\r\rd\r\n\xff\n"
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    (tmp_path / "bad.txt").write_bytes(content)
    monkeypatch.setattr("hardmax._lib.reading.PIECE", size)
    with pytest.raises(ValueError, match=r"bad\.txt: line 8 must be in UTF-8"):
        read_sentences(tmp_path / "bad.txt")
    with pytest.raises(ValueError, match=r"^text: line 8 must be in UTF-8"):
        [streaming.count(block, 64) for block in streaming.blocks(pieces)]


def test_packed_and_json_files_join_in(tmp_path):
    (tmp_path / "one.txt").write_text("a b\nb a\n")
    (tmp_path / "two.txt.gz").write_bytes(gzip.compress(b"a b\nc\n"))
    (tmp_path / "three.json").write_text('[["c", "a"], ["a", "b"]]')
    files = [tmp_path / name for name in ("one.txt", "two.txt.gz", "three.json")]
    found = ntp_check(*files)
    assert found.sentences.counts.tolist() == [3, 1, 1, 1]
    assert found.json()["files"] == list(map(str, files))
    together = ntp_check(["a b", "b a", "a b", "c", "c a", "a b"])
    differ = {"file", "files", "notes", "sentences"}
    assert {k: v for k, v in found.json().items() if k not in differ} == {
        k: v for k, v in together.json().items() if k not in differ
    }


def test_an_interrupt_keeps_what_was_read(tmp_path, monkeypatch):
    path = tmp_path / "some.txt"
    path.write_text("a b\n" * 10 + "a c\n" * 10)
    monkeypatch.setattr(streaming.texts_of, "__defaults__", (8,))
    monkeypatch.setattr(
        streaming.read_distinct, "__kwdefaults__", {**streaming.read_distinct.__kwdefaults__, "size": 8}
    )
    asked = iter([False] * 3 + [True] * 9)

    @contextmanager
    def noted(_):
        yield lambda: next(asked)

    monkeypatch.setattr(Session, "noted", noted)
    found = ntp_check(path)
    assert (found.exit_code, found.realizable, found.sentences.n) == (130, None, 8)
    assert found.status == "interrupted: checked the first 8 sentences"


def test_a_walk_that_is_told_to_stop_goes_no_further(monkeypatch):
    told = []

    def stopping(*arguments):
        *others, stop = arguments
        stop[0] = 1
        told.append(walk(*others, stop)[0][SAMPLES])
        raise KeyboardInterrupt

    walk = walking.walk
    monkeypatch.setattr(walking, "walk", stopping)
    with pytest.raises(KeyboardInterrupt):
        survey(Distinct.of(Sentences.from_lists(["a b c", "a b d", "b c"])), workers=1)
    assert told == [0]
