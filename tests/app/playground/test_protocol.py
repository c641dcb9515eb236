"""Messages: whatever comes is answered by JSON with a sentence, never by an error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.app.playground.engine import QUESTIONS, reply
from hardmax.app.playground.protocol import MOST_BYTES, read

TWO = {"keys": [[[1.0, 0.0], [0.0, 0.0]]], "scores": [[1.0, 0.0]]}


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"{", "must be JSON"),
        (b"\xff\xfe", "must be"),
        (b"[]", "must be a JSON object, got list"),
        (b'{"ask": "tour"}', "v must be 1, got None"),
        (b'{"v": 2, "ask": "tour"}', "v must be 1, got 2"),
        (b'{"v": 1, "rate": NaN}', "finite numbers, got NaN"),
        (b'{"v": 1, "rate": -Infinity}', "finite numbers, got -Infinity"),
        (b"[" * 200_000, "nested"),
        (b'{"v":' * 100_000 + b"1" + b"}" * 100_000, "nested"),
        (b" " * (MOST_BYTES + 1), "at most 4,000,000 bytes, got 4,000,001"),
        (b'{"v": 1, "rate": ' + b"9" * 5000 + b"}", "at most 400 digits"),
    ],
)
def test_what_is_no_message_is_refused(raw, sentence):
    with pytest.raises(ValueError, match=sentence):
        read(raw)
    told = json.loads(reply(raw))
    assert told["ok"] is False
    assert sentence in told["error"]


def test_an_infinite_number_in_disguise_is_refused():
    told = json.loads(reply(b'{"v": 1, "ask": "train", "rate": 1e400, "problem": {}}'))
    assert not told["ok"]
    raw = json.dumps({"v": 1, "ask": "solve", "problem": TWO}).replace("0.0", "1e999").encode()
    assert "each key must be two numbers" in json.loads(reply(raw))["error"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**9) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
names = [
    "problem",
    "norm",
    "rate",
    "rules",
    "starts",
    "level",
    "known",
    "span",
    "sentences",
    "prompt",
    "texts",
    "state",
]


@given(st.sampled_from(sorted(QUESTIONS)), st.dictionaries(st.sampled_from(names), anything), st.booleans())
def test_any_message_is_answered(name, fields, posed):
    if posed:
        fields = {"problem": TWO, "rules": ["gd"], "starts": [[1, 1]], "sentences": ["a b", "b a"], **fields}
    told = json.loads(reply(json.dumps({"v": 1, "ask": name, **fields}).encode()))
    assert told["v"] == 1
    assert told["ok"] or told["error"]


def test_the_time_of_an_answer_is_told():
    told = json.loads(reply(json.dumps({"v": 1, "ask": "solve", "problem": TWO}).encode()))
    assert told["ok"]
    assert told["cpu"] >= 0.0
