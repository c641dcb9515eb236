"""Checks of papers A and C on data that nobody wrote them for: a verdict or a sentence, nothing else."""

import inspect
import re
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.nexttoken import generate
from hardmax.papers.checking.check import check_statement, statements

OF_A, OF_C = ([id for id in statements() if id.startswith(paper)] for paper in ("A-", "C-"))
ON_PROBLEMS = ("A-DEF-16", "A-THM-5S")
FLOWS = ("A-LEM-9", "A-LEM-13", "A-LEM-14", "A-LEM-18", "A-LEM-19", "A-SEC-3", "A-THM-5", "A-THM-5S")

CORPORA = {
    "n = T = 1": hm.Corpus.from_sequences([[0]], [1]),
    "n = 1": hm.Corpus.from_sequences([[0, 1]], [1]),
    "T = 1": hm.Corpus.from_sequences([[0], [1], [0]], [1, -1, 1]),
    "one token": hm.Corpus.from_sequences([[0, 0], [0, 0]], [1, -1]),
    "one label": hm.Corpus.from_sequences([[0, 1], [0, 1]], [1, 1]),
    "2 x 2": hm.Corpus.from_sequences([[0, 2], [1, 2]], [1, -1]),
}
SENTENCES: dict[str, Any] = {
    "one token": ["a a"],
    "one token, long": ["a a a a a"],
    "constant": ["a b", "b a"],
    "two tokens": ["a b a", "b a b"],
    "two next tokens": ["a b", "a c"],
    "often": [" ".join(["a", "b"] * 20)],
    "copies": ["a b b", "b a", "b a"],
}


def embeddings(S: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {
        "d = 1": (np.arange(S, dtype=float)[:, None], np.ones(1)),
        "zero": (np.zeros((S, 2)), np.zeros(2)),
        "all alike": (np.ones((S, 2)), np.ones(2)),
        "no value": (np.eye(S, S + 1), np.zeros(S + 1)),
    }


def asked(id: str) -> set[str]:
    return set(inspect.signature(statements()[id].test).parameters)


def verdict(id: str, subject: Any, **options: Any) -> str:
    """The verdict, or "refused" where a sentence says what was wrong with the input."""
    given = {name: x for name, x in options.items() if name in asked(id)}
    try:
        found = check_statement(id, subject, **given)
    except ValueError as refusal:
        # numpy's own errors name no argument of ours
        return "refused" if re.search("must|expected", str(refusal)) else str(refusal)
    # what is proved cannot fail, whatever the data, and nothing fails without a proof
    assert found.verdict != "fails"
    assert found.paper_verdict != "fails" or check_statement(id, subject, reading="paper", **given).proof
    return found.verdict


VERDICTS = {"holds", "vacuous", "not applicable", "undecided", "refused"}


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("id", OF_A)
@pytest.mark.no_cover
def test_any_embeddings_get_a_verdict(id: str, name: str) -> None:
    corpus = CORPORA[name]
    scores = np.arange(corpus.S) % 3
    for E, v in embeddings(corpus.S).values():
        subject: Any = corpus.problem(E, v) if id in ON_PROBLEMS else corpus
        given = {"E": E, "v": v, "scores": scores, "draws": 5}
        assert verdict(id, subject, start=np.ones(E.shape[1]), **given) in VERDICTS
        if "p_hat" in asked(id):
            assert verdict(id, subject, p_hat=np.zeros(E.shape[1]), **given) in VERDICTS


@pytest.mark.parametrize("name", SENTENCES)
@pytest.mark.parametrize("id", OF_C)
def test_any_sentences_get_a_verdict(id: str, name: str) -> None:
    for steps in (1, 2, 50):
        assert verdict(id, SENTENCES[name], steps=steps, draws=2) in VERDICTS


@pytest.mark.parametrize("id", ["C-THM-P2", "C-THM-BLOCK"])
def test_graphs_without_an_edge_ask_for_nothing(id: str) -> None:
    assert [check_statement(id, graphs).verdict for graphs in ({}, {"q": []})] == ["vacuous"] * 2


@pytest.mark.parametrize("id", [id for id in OF_C if "rate" in asked(id)])
@pytest.mark.parametrize("rate", [0.0, 1e-300, 1e200, float("nan"), "fast"])
def test_a_step_that_is_none_is_refused(id: str, rate: Any) -> None:
    with pytest.raises(ValueError, match="rate must be"):
        check_statement(id, ["a b b", "b a"], rate=rate)


@pytest.mark.parametrize("id", [id for id in OF_C if "rate" in asked(id)])
def test_steps_of_any_size_get_a_verdict(id: str) -> None:
    for rate in (1e-90, 1e5, 1e90):
        assert verdict(id, ["a b b", "b a"], rate=rate, steps=20, draws=2) in VERDICTS - {"refused"}


@pytest.mark.parametrize("id", [id for id in OF_C if "steps" in asked(id)])
def test_no_steps_are_refused(id: str) -> None:
    with pytest.raises(ValueError, match="steps must be an integer"):
        check_statement(id, ["a b b", "b a"], steps=0)


@pytest.mark.parametrize("id", [id for id in OF_A if "draws" in asked(id)])
def test_no_draws_are_refused(id: str) -> None:
    with pytest.raises(ValueError, match="draws must be an integer"):
        check_statement(id, CORPORA["2 x 2"], draws=0)


@pytest.mark.parametrize("id", [id for id in OF_A if "first_rate" in asked(id)])
def test_a_first_step_beyond_floats_is_refused(id: str) -> None:
    with pytest.raises(ValueError, match="first_rate must be between 1e-75 and 1e\\+75 in size"):
        check_statement(
            id, CORPORA["2 x 2"], first_rate=1e200, **({"scores": [1, 1, 0]} if id == "A-LEM-17" else {})
        )


def test_widths_of_any_size_get_a_verdict() -> None:
    for id in OF_A:
        if "d" in asked(id):
            found = {verdict(id, CORPORA["2 x 2"], d=d, draws=2) for d in (1, 2, 10**400)}
            assert found <= VERDICTS - {"refused"}


# -- random corpora and sentences -------------------------------------------------------------------------


def random_corpus(rng: np.random.Generator) -> hm.Corpus:
    if rng.random() < 0.5:
        n, T = 2 * int(rng.integers(1, 4)), int(rng.integers(1, 5))
        return hm.embeddings.assumption_4_corpus(n, T, rng=rng)
    n, S = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    sequences = [rng.integers(S, size=int(rng.integers(1, 5))).tolist() for _ in range(n)]
    return hm.Corpus.from_sequences(sequences, rng.choice([-1, 1], size=n), [str(s) for s in range(S)])


def random_embeddings(corpus: hm.Corpus, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    d, limit = (
        int(rng.integers(1, 4)),
        hm.embeddings.first_step.infinite_width(corpus, 10 ** rng.uniform(-2, 3)),
    )
    kind = int(rng.integers(4))
    if kind == 0:
        return rng.normal(size=(corpus.S, d)), rng.normal(size=d)
    if kind == 1:
        return rng.integers(-1, 2, size=(corpus.S, d)) * 1.0, rng.integers(-1, 2, size=d) * 1.0
    return limit.E + (kind == 3) * 0.1 * rng.normal(size=limit.E.shape), limit.v


def random_sentences(rng: np.random.Generator) -> Any:
    if rng.random() < 0.5:
        kind = ["cycle", "derangement", "uniform"][int(rng.integers(3))]
        lag0, longest = float(rng.choice([0.2, 0.8])), int(rng.integers(2, 7))
        return generate(
            int(rng.integers(2, 7)), permutation=kind, lag0=lag0, max_length=longest, rng=rng
        ).text
    few, count = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    return [rng.integers(few, size=int(rng.integers(2, 6))).tolist() for _ in range(count)]


@pytest.mark.slow
@pytest.mark.no_cover
def test_nothing_proved_fails_on_random_corpora() -> None:
    rng, found = np.random.default_rng(0), []
    for k in range(161):
        id = OF_A[k % len(OF_A)]
        corpus = random_corpus(rng)
        E, v = random_embeddings(corpus, rng)
        subject: Any = corpus.problem(E, v) if id in ON_PROBLEMS else corpus
        given = {"E": E, "v": v} if id not in FLOWS or rng.random() < 0.5 else {}
        found.append(verdict(id, subject, scores=rng.integers(3, size=corpus.S), draws=9, **given))
    print(f"undecided: {found.count('undecided')} of {len(found)}")
    assert found.count("undecided") <= 0.05 * len(found)
    assert set(found) <= VERDICTS - {"refused"}
    assert found.count("holds") >= 0.2 * len(found)


@pytest.mark.slow
@pytest.mark.no_cover
def test_nothing_proved_fails_on_random_sentences() -> None:
    rng = np.random.default_rng(0)
    found = [verdict(OF_C[k % len(OF_C)], random_sentences(rng), draws=9) for k in range(170)]
    print(f"undecided: {found.count('undecided')} of {len(found)}")
    assert found.count("undecided") <= 0.05 * len(found)
    assert set(found) <= VERDICTS - {"refused"}
    assert found.count("holds") >= 0.2 * len(found)
