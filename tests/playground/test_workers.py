"""Engines in processes: answers come back, a deadline ends one of them, and the next question is answered."""

import json

from hardmax.playground.workers import Workers

LONG = {"v": 1, "ask": "words", "epochs": 200, "rate": 0.01, "least": 1}


def test_a_question_that_takes_too_long_is_ended_and_the_next_one_answered(honest):
    texts = [[" ".join(f"w{(7 * k + j) % 2900}" for j in range(60)), 1 - 2 * (k % 2)] for k in range(5000)]
    long = json.dumps({**LONG, "texts": texts}).encode()
    with Workers(seconds=3.0) as workers:
        first = json.loads(workers.ask(json.dumps(honest).encode(), "a"))
        assert first["ok"], first
        refused = json.loads(workers.ask(long, "a"))
        assert refused == {
            "v": 1,
            "ok": False,
            "error": "this took longer than 3 seconds and was stopped; ask for less",
        }
        workers.seconds = 60.0
        again = json.loads(workers.ask(json.dumps(honest).encode(), "a"))
        assert again["answer"] == first["answer"]
    assert not json.loads(workers.ask(b"{}"))["ok"]
