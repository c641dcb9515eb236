"""Tokens of documents: words of raw texts, found by a compiled loop, or lists of words as they are given."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax.text.counting import kernels as compiled

PIECE = 1 << 22  # bytes of text that one thread takes at a time
_OTHER = re.compile(r"[^\x00-\x7f\w]+")  # signs of other alphabets are gaps, as those of ASCII are


@dataclass(frozen=True, eq=False)
class Tokens:
    """The hashes of all tokens, one document after the other, and how to spell those at some positions."""

    hashes: np.ndarray  # (N,) uint64
    offsets: np.ndarray  # (n + 1,) int64, of the documents
    spell: Callable[[np.ndarray], list[str]]

    @property
    def documents(self) -> np.ndarray:
        """The document of each token."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), np.diff(self.offsets))


def mapped(function: Callable[..., Any], jobs: Iterable[Any], workers: int) -> list[Any]:
    """What a function gives for each job, in their order, on some threads."""

    def quietly(job: Any) -> Any:
        with np.errstate(over="ignore"):  # hashes overflow on purpose, which plain Python would tell
            return function(job)

    if workers == 1:
        return [quietly(job) for job in jobs]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(quietly, jobs))


def read_texts(texts: Sequence[str], workers: int) -> Tokens:
    """Lower-case words, with inner apostrophes, and each ! and ?; tags of HTML and other signs are gaps."""
    coded = [_coded(text) for text in texts]
    sizes = np.fromiter(map(len, coded), np.int64, len(coded))
    pieces = (np.cumsum(sizes) - sizes) // PIECE
    bounds = [0, *(np.flatnonzero(np.diff(pieces)) + 1).tolist(), len(coded)] if coded else [0]
    kinds, lower = compiled.byte_kinds(), compiled.lower_bytes()

    def split(bound: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, bytes]:
        whole = b"".join(coded[bound[0] : bound[1]])
        ends = np.cumsum(sizes[bound[0] : bound[1]])
        hashes, starts = np.empty(len(whole), np.uint64), np.empty(len(whole), np.int32)
        stops, counts = np.empty(len(whole), np.int32), np.empty(len(ends), np.int64)
        text = np.frombuffer(whole, np.uint8)
        found = compiled.split(text, ends, kinds, lower, hashes, starts, stops, counts)
        return hashes[:found].copy(), starts[:found].copy(), stops[:found].copy(), counts, whole

    done = mapped(split, list(pairwise(bounds)), workers)
    first = np.cumsum([0, *(len(each[0]) for each in done)])

    def spell(positions: np.ndarray) -> list[str]:
        words = [""] * len(positions)
        piece = np.searchsorted(first, positions, side="right") - 1
        for k, (_, starts, stops, _, whole) in enumerate(done):
            chosen = np.flatnonzero(piece == k)
            at = positions[chosen] - first[k]
            for where, start, stop in zip(
                chosen.tolist(), starts[at].tolist(), stops[at].tolist(), strict=True
            ):
                words[where] = whole[start:stop].decode().lower()
        return words

    return Tokens(
        np.concatenate([np.empty(0, np.uint64), *(each[0] for each in done)]),
        np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, np.int64), *(e[3] for e in done)]))]),
        spell,
    )


def read_lists(lists: Sequence[Sequence[str]]) -> Tokens:
    """Tokens as they are given, upper case and all."""
    number: dict[str, int] = {}
    flat = [number.setdefault(token, len(number)) for tokens in lists for token in tokens]
    words = list(number)
    coded = [word.encode("utf-8", "surrogatepass") for word in words]
    hashes = np.empty(len(words), np.uint64)
    ends = np.cumsum([0, *map(len, coded)])[1:]
    with np.errstate(over="ignore"):
        compiled.whole_hashes(np.frombuffer(b"".join(coded), np.uint8), ends, hashes)
    places = np.array(flat, np.intp)
    offsets = np.cumsum([0, *map(len, lists)])
    return Tokens(hashes[places], offsets, lambda positions: [words[k] for k in places[positions]])


def read_documents(X: Any, name: str = "X") -> list[Any]:
    """Raw texts, or lists of words; one kind for all. What is neither is refused by its place."""
    if isinstance(X, str | bytes):
        raise ValueError(f"{name} must be a list of texts, got one text; put it into a list")
    if X is None or not hasattr(X, "__iter__"):
        raise ValueError(f"{name} must be a list of texts, got {type(X).__name__}")
    documents = list(expect.sequences(name, X))
    if any(isinstance(each, str) for each in documents):
        odd = next((k for k, each in enumerate(documents) if not isinstance(each, str)), None)
        if odd is not None:
            raise ValueError(
                f"{name}[{odd}] must be a text as others are, got {documents[odd]!r:.40}; "
                "give an empty one where there is none"
            )
        return documents
    for k, each in enumerate(documents):
        words = expect.values(each)
        if words is None:
            raise ValueError(f"{name}[{k}] must be a text or a list of words, got {each!r:.40}; give words")
        odd = next((word for word in words if not isinstance(word, str)), None)
        if odd is not None:
            raise ValueError(f"{name}[{k}] must be a list of words, got {odd!r:.40} in it; give words only")
        documents[k] = words
    return documents


def tokens_of(documents: Sequence[Any], workers: int) -> Tokens:
    """The tokens of documents that `read_documents` gave."""
    if all(isinstance(each, str) for each in documents):
        return read_texts(documents, workers)
    return read_lists(documents)


def _coded(text: str) -> bytes:
    if text.isascii():
        return text.encode()
    lower = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    return _OTHER.sub(" ", lower).encode()
