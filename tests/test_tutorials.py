"""The tutorials run as they stand, leave nothing behind, and find the numbers that their text tells."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "examples" / "tutorials"

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a tutorial in an empty folder, where it draws one picture; the names it ends with."""
    import matplotlib.pyplot as plt

    def run(name: str) -> dict[str, Any]:
        monkeypatch.chdir(tmp_path)
        names = runpy.run_path(str(TUTORIALS / f"{name}.py"))
        assert len(plt.get_fignums()) == 1
        plt.gcf().canvas.draw()
        assert not list(tmp_path.iterdir())
        return names

    plt.close("all")
    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)  # on a machine with a display Agg would warn
    yield run
    plt.close("all")


def test_every_tutorial_is_here():
    files = {file.stem for file in TUTORIALS.glob("*.py")}
    assert len(files) == 8
    assert {f"test_{name}" for name in files} <= globals().keys()


def test_where_does_gradient_descent_go(run):
    names = run("where_does_gradient_descent_go")
    file = hm.Problem.load(ROOT / "examples" / "three-inputs.json")
    assert (names["problem"].keys == file.keys).all()
    assert (names["problem"].scores == file.scores).all()
    run, best = names["run"], names["best"]
    assert run.selection == (2, 2, 3)
    assert run.times[-1] == pytest.approx(717_808, abs=1)
    assert hm.dynamics.off_top_attention(file, 10 * run.direction) == pytest.approx(5.3e-4, rel=0.02)
    assert best.is_certified
    assert best.support == ((1, 1), (2, 1))
    assert names["low"] <= best.margin <= names["high"] < names["low"] + 1e-12
    # the two tight rows, by hand: p = (-2, -18)/13
    assert best.margin == pytest.approx(13 / np.hypot(2, 18), rel=1e-12)
    assert run.cosine_distance(best) < 1e-13
    assert (names["search"].feasible, names["search"].status) == (11, "complete")
    assert names["selections"] == [(2, 2, 3), (1, 3, 0), (1, 1, 0)]
    margins = [attractor.margin for attractor in names["attractors"]]
    assert margins == pytest.approx([0.7178, 0.6472, 0.6059], abs=5e-5)
    assert names["shares"] == pytest.approx([0.733, 0.148, 0.119], abs=0.003)


def test_which_optimizer_does_what(run):
    names = run("which_optimizer_does_what")
    selections = {name: each.selection for name, each in names["runs"].items()}
    assert selections["normalized descent"] == selections["coordinate descent"] == (0, 2)
    assert selections["sign descent"] == selections["Adam"] == (0, 1)
    assert max(gap for name, gap in names["gaps"].items() if "mirror" not in name) < 0.005


def test_check_a_conjecture(run):
    names = run("check_a_conjecture")
    sweep = names["sweep"]
    assert (sweep.done, sweep.failed) == (10_000, 0)
    possible = [cell.of["possible"].k for cell in names["cells"]]
    assert possible == pytest.approx([1838, 2357, 2500, 2500], abs=2)
    assert possible[2:] == [2500, 2500]  # as many dimensions as rows
    # descent with long steps: a trial near a boundary may fall to either side on another machine
    everything = names["everything"].of
    assert everything["found"].n == pytest.approx(8958, abs=10)
    assert everything["found"].n - everything["found"].k == pytest.approx(560, abs=10)
    assert everything["found"].interval == pytest.approx((0.932, 0.942), abs=0.002)
    assert everything["found"].share ** 12 == pytest.approx(0.46, abs=0.01)  # none in a dozen
    assert everything["larger_margin"].k == pytest.approx(540, abs=10)
    assert everything["larger_margin"].k + len(names["exceptions"]) == everything["larger_margin"].n
    problem, run = names["problem"], names["run"]
    assert hm.best_tokens(problem).tokens == (2, 2)
    assert run.selection == (1, 1)
    assert hm.max_margin(problem).margin == pytest.approx(0.267, abs=5e-4)
    assert names["solved"].margin == pytest.approx(0.753, abs=5e-4)
    assert run.cosine_distance(names["solved"]) < 1e-10
    odd, end = names["odd"], names["flow"].selection
    reached, best = hm.max_margin(odd, end), hm.max_margin(odd)
    assert hm.attracts(odd, reached).verdict
    assert (reached.margin, best.margin) == pytest.approx((0.360, 0.410), abs=5e-4)
    assert len(list(hm.attractors(odd))) == 3
    assert (names["check"].verdict, names["check"].label) == ("consistent", "conjecture")


def test_read_a_theorem_check(run):
    names = run("read_a_theorem_check")
    scored, equal, single = names["scored"], names["equal"], names["single"]
    assert scored.verdict == "not applicable"
    assert {h.id: h.holds for h in scored.hypotheses} == {
        "B-ASM-A": True,
        "B-ASM-B": False,
        "best tokens separable": True,
    }
    slope, witness, margin = (h.measured for h in scored.hypotheses)
    assert slope == pytest.approx(1 / (1 + np.exp(0.9)), rel=1e-12)
    assert witness == (0, 0, 1)
    assert margin == pytest.approx(0.718, abs=5e-4)
    assert scored.hypotheses[2].erratum == "B-ERR-01"
    assert equal.holds
    assert equal.slack == pytest.approx(1, abs=1e-6)
    assert equal.measured["norm over log t"] == pytest.approx(np.hypot(2, 18) / 13, rel=1e-6)
    assert equal.measured["norm"] == pytest.approx(14_000, rel=0.01)
    assert single.vacuous
    assert (names["corrected"].verdict, names["printed"].verdict) == ("not applicable", "fails")
    assert names["printed"].slack == -1
    assert names["printed"].measured["event"] == "stationary point"
    assert names["printed"].witness == pytest.approx([1.4261, 1.6728], abs=1e-4)
    assert hm.gradient(names["opposed"], np.zeros(2)).log_norm == pytest.approx(-3, abs=0.5)
    assert hm.gradient(names["opposed"], names["printed"].witness).log_norm < -30
    assert names["late"].holds
    assert hm.check_statement("C-THM-ASY", names["sentences"], steps=900).verdict == "undecided"
    assert names["slope"] == pytest.approx(np.hypot(2, 18) / 13, rel=1e-12)


def test_is_my_dataset_realizable(run, capsys):
    names = run("is_my_dataset_realizable")
    kinds = {each.kind: each.count for each in names["analysis"].violations}
    assert kinds == {"nondeterministic": 1, "missing_collocation": 1, "confused": 2, "cycle": 1}
    assert names["analysis"].violations[0].witnesses[0]["next"] == ["wait", "drink"]
    assert (names["part"].samples, names["part"].of_samples) == (13, 14)
    assert names["kept"] == [*names["notes"][:4], "boil pour steep wait"]
    repaired, run = names["repaired"], names["run"]
    assert repaired.realizable
    assert repaired.words(repaired.repaired) == ["drink"]
    assert repaired.words(repaired.n) == ["pour", "steep", "wait", "drink", "boil"]
    assert run.loss < 1e-16
    assert run.masses.min() > 1 - 1e-6
    assert run.misalignment_kq == pytest.approx(8.34e-6, rel=1e-3)
    assert run.late.predicted_misalignment(run.rate * 10_000) == pytest.approx(run.misalignment_kq, rel=1e-3)
    assert [each.next(1)[0][0] for each in names["answers"]] == ["wait", "wait", "pour", "boil"]
    assert [each.rule for each in names["answers"]] == ["unique", "unique", "ambiguous", "tie"]
    assert names["answers"][1].reason == "steep: optimal under the last token"
    assert names["answers"][3].probabilities.max() == pytest.approx(0.5, abs=1e-6)
    assert "does not know 'milk'" in capsys.readouterr().out


def test_what_did_the_embeddings_learn(run):
    names = run("what_did_the_embeddings_learn")
    corpus, rows, trained = names["corpus"], names["rows"], names["trained"]
    assert (corpus.n, corpus.T, corpus.S) == (32, 6, 17)
    assert names["sentences"][0] == "the film was superb and warm"
    assert corpus.posterior_difference[rows].tolist() == [1, 0.5, 0, 0, -0.5, -1]
    assert corpus.alpha[rows] * 192 == pytest.approx([4, 8, 0, 0, -8, -4], abs=1e-12)
    assert names["after_one"][rows] == pytest.approx(32 * corpus.alpha[rows], abs=0.2)
    assert names["lemma"].holds
    assert names["lemma"].slack > 0.99
    assert trained.loss == pytest.approx(0.0024, rel=0.1)  # less than log(2)/32: every sentence is right
    assert (trained.r_v, trained.r_p) == pytest.approx((0.95, 0.91), abs=0.02)
    assert trained.c[rows] == pytest.approx([6.3, 3.8, 0.0, -0.5, -4.1, -6.4], abs=0.3)
    assert trained.a[rows] == pytest.approx([1.9, -1.8, -3.5, -2.1, -1.3, 1.8], abs=0.3)
    assert [word for word in names["selected"] if word not in names["good"] + names["bad"]] == []
    assert hm.directions.is_best(names["problem"], names["run"].selection)
    assert names["best"].is_certified
    assert names["run"].cosine_distance(names["best"]) < 1e-7
    assert names["whole"].verdict == "not applicable"
    assert "'warm'" in names["whole"].hypotheses[0].measured
    assert names["simple"].holds
    assert names["simple"].measured["d"] > 1e70


def test_which_words_decide(run):
    names = run("which_words_decide")
    assert (len(names["texts"]), len(names["more"])) == (400, 200)
    assert len({row["text"] for row in names["rows"]}) == 600
    assert 0.88 < names["accuracy"] < 0.96
    for word in names["chosen"].words:
        assert word.posterior > 0.8
    kept = names["kept"]
    assert kept.full_accuracy == names["accuracy"]
    assert kept.accuracy > 0.87
    assert kept.needed > 0.4
    why = names["why"]
    assert why.label == "negative"
    assert sum(part.contribution for part in why.parts) == pytest.approx(why.score, abs=1e-12)
    assert names["short"].score(names["more"], names["truth"]) > 0.87
    assert names["followed"].sign_accuracy() > 0.85


@pytest.mark.extra
def test_is_my_attention_accurate(run):
    names = run("is_my_attention_accurate")
    assert names["usual"] > 0.5
    assert names["fixed"] < 1e-8
    assert {case.quantity for case in names["result"].failures} == {"dq", "dk"}
    assert {case.regime for case in names["result"].failures} == {"gap 8", "gap 20"}
    assert max(names["errors"]["exact attention"]) < 1e-8
    assert names["errors"]["PyTorch"][0] < 1e-8


def test_what_a_newcomer_gets_wrong_is_answered():
    problem = hm.data.example("B-FIG-8")
    with pytest.raises(
        ValueError, match=r"B-THM-L7: missing .*'selection'; call check_statement\('B-THM-L7', problem, sel"
    ):
        hm.check_statement("B-THM-L7", problem)
    with pytest.raises(
        ValueError, match=r"unexpected keyword argument 'tokens'; call check_statement\('B-THM-3', problem"
    ):
        hm.check_statement("B-THM-3", problem, tokens=(0, 1))
    assert hm.attracts(problem, hm.Selection(((0,), (1,)))).verdict  # tokens will do
