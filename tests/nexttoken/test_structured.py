"""The structured log-domain direction: underflow, signs, edge cases, and agreement with the other forms."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nexttoken.literal import literal_gradient

from hardmax.dynamics.edges import edges_of
from hardmax.nexttoken import Samples, generate, named_sentences
from hardmax.nexttoken.relations import orders
from hardmax.nexttoken.stages import Pairs, StageTwo, stage_1
from hardmax.nexttoken.star import KqStar
from hardmax.problem.readouts import OutputValue


def pairs_of(name):
    text = named_sentences(name)
    return Pairs.of(
        Samples.from_sentences([text.words(i) for i in range(text.n)], vocabulary=text.vocabulary)
    )


def problem_of(pairs):
    return pairs.samples.problem(OutputValue.aligned(pairs.collocation, 1.0))


def numbers(rows):
    return np.array(rows, dtype=np.float64)


def fractions(rows):
    return np.array([[float(Fraction(x)) for x in row] for row in rows])


@pytest.mark.parametrize("method", ["structured", "signed", "table"])
def test_direction_that_underflows(oracles, method):
    """C-ORC-4: the gradient has norm e^-1554 and the naive formula returns zero."""
    case = oracles["c"]["C-ORC-4_underflow_direction"]
    star = fractions(oracles["c"]["C-ORC-1_example1"]["W_kq_star_rows_token_cols_query"])
    pairs = pairs_of("C-EX-1")
    A = 1500 * star + numbers(case["P"])
    W_ov = OutputValue.aligned(pairs.collocation, 60.0)
    assert not literal_gradient(pairs.samples, np.eye(4), W_ov.table, A).any()
    if method == "table":
        W_ov, method = OutputValue.of_table(pairs.collocation, W_ov.table), "signed"
    found = StageTwo(pairs, W_ov).direction(pairs.values(A), method=method)
    np.testing.assert_allclose(pairs.table(found.unit), numbers(case["direction"]), atol=2e-14)
    assert found.log_norm == pytest.approx(float(case["log_grad_norm"]), abs=1e-10)
    assert found.method == method


def exact_gradient(pairs, margin, a):
    """(6) with 400 digits."""
    with mp.workdps(400):
        V, data = pairs.samples.V, pairs.samples
        A = {(x, q): mp.mpf(v) for x, q, v in zip(pairs.token.tolist(), pairs.query.tolist(), a, strict=True)}
        G = dict.fromkeys(A, mp.mpf(0))
        for i in range(data.n):
            inside = slice(data.offsets[i], data.offsets[i + 1])
            tokens, q, y = data.tokens[inside].tolist(), int(data.query[i]), int(data.target[i])
            if len(tokens) == 1:
                continue
            weights = [int(c) * mp.exp(A[x, q]) for x, c in zip(tokens, data.counts[inside], strict=True)]
            m = [w / sum(weights) for w in weights]
            z = [mp.mpf(0)] * V
            for x, mass in zip(tokens, m, strict=True):
                z[pairs.collocation[x]] += mp.mpf(margin) * mass
            T = [mp.exp(each) for each in z]
            T = [each / sum(T) for each in T]
            off = [T[v] - (v == y) for v in range(V)]
            g = [mp.mpf(margin) * off[pairs.collocation[x]] for x in tokens]
            mean = sum(a * b for a, b in zip(m, g, strict=True))
            for x, mass, score in zip(tokens, m, g, strict=True):
                G[x, q] += mp.mpf(float(data.weight[i])) * mass * (score - mean)
        norm = mp.sqrt(sum(each**2 for each in G.values()))
        return np.array([float(G[key] / norm) for key in A]), float(mp.log(norm))


@pytest.mark.parametrize("name", ["C-EX-1", "C-CEX-P2", "C-EXT-1", "C-EXT-3"])
@pytest.mark.parametrize("margin", [0.5, 9.0, 150.0, 400.0])
@pytest.mark.parametrize("size", [0.0, 0.3, 40.0])
def test_both_forms_against_400_digits(name, margin, size):
    pairs = pairs_of(name)
    a = size * np.random.default_rng(7).standard_normal(pairs.P)
    stage = StageTwo(pairs, OutputValue.aligned(pairs.collocation, margin))
    unit, log_norm = exact_gradient(pairs, margin, a)
    for method in (None, "signed"):
        found = stage.direction(a, method=method)
        np.testing.assert_allclose(found.unit, unit, atol=1e-12)
        assert found.log_norm == pytest.approx(log_norm, rel=1e-12, abs=1e-11)


@given(seed=st.integers(0, 10**6), margin=st.floats(0.1, 20.0), size=st.floats(0.0, 5.0))
def test_dense_structured_and_signed_agree(seed, margin, size):
    draw = np.random.default_rng(seed)
    samples = Samples.from_sentences(generate(7, lag0=0.6, rng=seed).sentences)
    pairs = Pairs.of(samples)
    if not pairs.n:
        return
    a = size * draw.exponential(size=pairs.P) * KqStar.of(pairs).values  # as on the way of training
    W_ov = OutputValue.aligned(pairs.collocation, margin)
    stage = StageTwo(pairs, W_ov)
    one, other = stage.direction(a, method="structured"), stage.direction(a, method="signed")
    table = StageTwo(pairs, OutputValue.of_table(pairs.collocation, W_ov.table)).direction(a)
    dense = literal_gradient(samples, np.eye(samples.V), W_ov.table, pairs.table(a))
    np.testing.assert_allclose(one.unit, other.unit, atol=1e-13)
    np.testing.assert_allclose(one.unit, table.unit, atol=1e-13)
    np.testing.assert_allclose(pairs.table(one.gradient), dense, atol=1e-14)
    columns = np.add.reduceat(one.unit, np.flatnonzero(np.diff(pairs.query, prepend=-1)))
    np.testing.assert_allclose(columns, 0, atol=1e-15)
    found = orders(samples)
    for q in np.unique(pairs.query):
        kinds = found.types(int(q))
        inside = pairs.query == q
        for x, g in zip(pairs.token[inside], one.unit[inside], strict=True):
            assert np.sign(g) == {"optimal": -1, "non_optimal": 1}[kinds[x]]


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_merging_changes_no_step(seed):
    raw = generate(6, lag0=0.7, max_length=9, rng=seed).sentences
    samples = Samples.from_sentences(raw + raw[:3])
    pairs = Pairs.of(samples)
    if not pairs.n:
        return
    a = np.zeros(pairs.P)
    W_ov = stage_1(pairs.collocation, 100, 0.2)
    StageTwo(pairs, W_ov).descend(a, 0.1, 20)
    A = np.zeros((samples.V, samples.V))
    for _ in range(20):
        G = literal_gradient(samples, np.eye(samples.V), W_ov.table, A)
        A -= 0.1 * G / np.linalg.norm(G)
    np.testing.assert_allclose(pairs.table(a), A, atol=1e-12)


def test_no_edges_where_a_sentence_has_none_or_two_deciding_tokens():
    assert edges_of(problem_of(pairs_of("C-ERR-02"))) is None
    assert edges_of(problem_of(pairs_of("C-EXT-2"))) is None
    assert edges_of(problem_of(Pairs.of(Samples.from_sentences(["a b c"])))) is None  # n(b) is missing
    pairs = pairs_of("C-EXT-2")
    stage = StageTwo(pairs, stage_1(pairs.collocation, 1, 1.0))
    with pytest.raises(ValueError, match="not exact here"):
        stage.direction(np.zeros(pairs.P), method="structured")
    with pytest.raises(ValueError, match="method must be"):
        stage.direction(np.zeros(pairs.P), method="dense")


def test_zero_gradients_are_named():
    pairs = pairs_of("C-EX-1")
    with pytest.raises(ValueError, match="W_ov is 0"):
        StageTwo(pairs, OutputValue.aligned(pairs.collocation, 0.0))
    single = Pairs.of(Samples.from_sentences(["a b", "b a"]))
    with pytest.raises(ValueError, match="no sentence has two distinct tokens"):
        StageTwo(single, stage_1(single.collocation, 1, 1.0))
    with pytest.raises(ValueError, match="must have 4 tokens"):
        StageTwo(pairs, stage_1(single.collocation, 1, 1.0))
