"""Files of every format that 0.2 wrote, by `tools/files_0_2.py`, are read, and their values are right."""

import json
import shutil
import unicodedata
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.contract import formulas as f
from tests.contract import names as n

FILES = Path(__file__).parent / "files-0.2"
KEYS = np.array([[[1.0, 0.5], [0.0, 0.0], [-0.5, 2.0]], [[0.25, 1.0], [1.0, -1.0], [0.0, 0.0]]])
SCORES = np.array([[1.0, 0.0, 0.5], [2.0, 0.0, 1.0]])
TEXTS, LABELS = ["good film", "a good one", "bad film", "a bad one"] * 5, ["+", "+", "-", "-"] * 5
P = np.array([0.3, -0.4])


@pytest.fixture
def copied(tmp_path):
    """Return the path of a copy, for what is written on."""
    return lambda name: Path(shutil.copy(FILES / name, tmp_path / name))


@pytest.mark.parametrize("name", ["problem.json", "problem.npz"])
def test_problems(name):
    problem = n.load_problem(FILES / name)
    assert (problem.keys.reshape(2, 3, 2) == KEYS).all()
    assert n.loss(problem, P) == pytest.approx(f.loss(KEYS, SCORES, P, "exponential"), rel=1e-13)


def test_problems_with_a_readout_and_with_queries():
    scores = np.array([[1], [-1]]) * (KEYS @ [0.5, 1.0])
    assert n.loss(n.load_problem(FILES / "problem-readout.npz"), P) == pytest.approx(f.loss(KEYS, scores, P))
    problem, W = n.load_problem(FILES / "problem-queries.npz"), np.array([[0.1, 0.2], [0.3, -0.4]])
    expected = [f.softmax(x @ W @ q) for x, q in zip(KEYS, [[1.0, 0.5], [-0.5, 1.0]], strict=True)]
    assert f.close(np.array(n.attention(problem, W.ravel())), expected)


def test_runs():
    run, rule = n.load_run(FILES / "run.npz"), f.Descent("adam", 0.1)
    p = np.array([0.1, 0.2])
    for _ in range(50):
        p = rule.move(f.gradient(KEYS, SCORES, p, "exponential"), p)
    assert f.close(run.p, p, rtol=1e-9)
    assert (run.times[-1], n.run_norm(run)) == (50, "linf")
    joint = n.load_run(FILES / "run-joint.npz")
    assert joint.times[-1] == 20
    assert n.readouts_of(joint).shape == (len(joint.times), 2)
    flow = n.load_run(FILES / "run-flow.npz")
    assert n.p_norm(flow) == pytest.approx(100.0)
    assert n.distance_to(flow, n.max_margin(flow.problem, n.selection(flow))) < 1e-3


@pytest.mark.parametrize("norm", ["l1", "l1.5", "l2", "linf", "exact", "nuclear", "spectral", "infeasible"])
def test_certificates(norm):
    file = FILES / f"certificate-{norm}.json"
    assert n.certify(file).valid
    told = json.loads(file.read_text())
    assert not n.certify({**told, "digest": ""}).valid
    if norm in ("l1", "l1.5", "l2", "linf"):
        p = np.array([float.fromhex(x) if "0x" in x else float(Fraction(x)) for x in told["p"]])
        assert (f.rows(KEYS, [0, 0]) @ p).min() == pytest.approx(1.0, rel=1e-9)
        best = n.max_margin(n.problem(KEYS, SCORES), [0, 0], norm=norm)
        assert f.length(p, norm) == pytest.approx(1 / best.margin, rel=1e-9)


def test_text_model():
    model = n.load_classifier(FILES / "text-model.npz")
    assert model.predict(["so good", "so bad"]).tolist() == ["+", "-"]
    fresh = n.classifier(ngram_range=(1, 1)).fit(TEXTS, LABELS)
    assert f.close(model.predict_proba(TEXTS), fresh.predict_proba(TEXTS), atol=1e-3)


def test_text_checkpoint(copied):
    options = {"ngram_range": (1, 1), "epochs": 3, "n_jobs": 1}
    file = copied("text-checkpoint.npz")
    going_on = n.classifier(**options, checkpoint=file).fit(TEXTS, LABELS)
    assert f.close(
        going_on.predict_proba(TEXTS),
        n.classifier(**options).fit(TEXTS, LABELS).predict_proba(TEXTS),
        atol=1e-6,
    )
    assert file.read_bytes() == (FILES / file.name).read_bytes()  # nothing was left to do
    with pytest.raises(ValueError, match="checkpoint"):
        n.classifier(**options, checkpoint=file).fit(TEXTS[1:], LABELS[1:])


def test_next_token_model(copied):
    file = copied("next-token-model.npz")
    told = n.load_predictor(file).predict("O S P")
    assert (told.next(1)[0][0], told.rule) == ("P", "unique")
    fresh = n.train_next_tokens(n.samples(["S V O P", "V O P", "O P P", "P S V"]), 300).predict("O S P")
    assert [x for _, x in told.next()] == pytest.approx([x for _, x in fresh.next()], rel=1e-9)
    resumed = n.train_to_file(["S V O P", "V O P", "O P P", "P S V"], file, steps=400, resume=True)
    assert resumed.json()["steps"] == 400


def test_embeddings_checkpoint(copied):
    corpus = n.corpus(["good film", "bad film"] * 4, [1, -1] * 4)
    start = tuple(np.random.default_rng(0).normal(size=shape) for shape in ((3, 4), 4, 4))
    options = {"epochs": 5, "batch": 4, "rng": 0, "start": start}
    rule, file = n.optimizer("adamw", 0.1), copied("embeddings.npz")
    going_on = n.train_minibatch(corpus, 4, rule, checkpoint=file, **options)
    assert f.close(going_on.p, n.train_minibatch(corpus, 4, rule, **options).p, rtol=1e-5)
    assert len(going_on.epoch_losses) == 5


def test_sweep_store(copied):
    found = n.open_sweep(copied("sweep-store.db"))
    assert (found.done, found.failed, found.remaining) == (8, 0, 0)
    fresh = n.sweep("sphere", {"d": [2, 10], "n": [2], "T": [3]}, 4, workers=0)
    for old, new in zip(found.rows(), fresh.rows(), strict=True):
        assert all(old[name] == new[name] for name in ("d", "trial", "seed", "locally_optimal", "saturated"))


def test_text_cache(tmp_path, monkeypatch):
    if unicodedata.unidata_version != "14.0.0":
        pytest.skip("the cache was written with Python's characters of version 14.0.0")
    shutil.copytree(FILES / "text-cache", tmp_path / "cache")
    monkeypatch.setenv("HARDMAX_CACHE", str(tmp_path / "cache"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    made = n.text_corpus(FILES / "reviews.csv", min_count=1, workers=1)
    assert made.corpus.vocabulary == ("love", "truli", "hate")
    assert made.corpus.matrix.toarray().tolist() == [[1, 1, 0], [0, 0, 2]]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_figure_record():
    [record] = n.read_figure_records(FILES / "figures")
    assert (record.id, record.holds, record.seed) == ("B-FIG-1a", True, None)
    measured = {claim.id: claim.measured for claim in record.claims}
    assert f.close(measured["B-FIG-1a.p-mm"], [-0.1 / 1.01, 1 / 1.01])


def test_playground_links():
    state = n.read_link((FILES / "playground-link.txt").read_text().strip())
    assert state["problem"]["scores"] == SCORES.tolist()
    assert state["problem"]["keys"] == KEYS.tolist()
    told = n.read_link((FILES / "playground-sentences.txt").read_text().strip())
    assert (told["scene"], told["sentences"]) == ("sentences", ["a b b", "b a"])


def test_the_files_are_small():
    assert sum(path.stat().st_size for path in FILES.rglob("*") if path.is_file()) < 1_000_000
