"""What the engine says is what the package says, to the last bit where both are asked the same."""

import copy
import json
import math

import numpy as np
import pytest

import hardmax as hm
from hardmax.app.playground import links, plane
from hardmax.app.playground.engine import QUESTIONS, answer
from hardmax.dynamics.stepping import points_from

B8 = {"keys": [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0]]], "scores": [[1.0, 0.0], [1.0, 0.0]]}
BREAD = ["we eat fresh bread", "eat fresh bread", "fresh bread bread", "bread we eat"]


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_directions_are_those_of_solve(norm):
    # first, because compiling counts towards the time limit of the page
    found = hm.solve(hm.data.example("B-FIG-8"), norm=norm)
    told = answer({"ask": "solve", "problem": B8, "norm": norm})
    assert [each["selection"] for each in told["selections"]] == [s.selection for s in found.selections]
    for each, own in zip(told["selections"], found.selections, strict=True):
        assert each["margin"] == own.max_margin.margin
        assert each["certified"]
        assert np.array_equal(each["p"], own.max_margin.p)


def test_bands_lie_where_the_rows_are_tight():
    """The rival of a support row lies on the lower line of its input's band, all others below it."""
    problem = hm.data.example("B-FIG-1c")
    told = answer({"ask": "solve", "problem": links.state_of(problem)["problem"]})["selections"][0]
    unit = np.array(told["direction"])
    for i, (keys, (high, low)) in enumerate(zip(problem.split(problem.keys), told["bands"], strict=True)):
        along = keys @ unit
        assert along[told["selection"][i]] == pytest.approx(high)
        rivals = np.delete(along, told["selection"][i])
        assert rivals.max() <= low + 1e-9
        tight = {t for j, t in told["support"] if j == i}
        assert all(along[t] == pytest.approx(low, abs=1e-9) for t in tight)


def test_training_is_that_of_flow_and_descend(scenes):
    state = scenes[3]  # Adam chooses another token
    runs = {
        run["rule"]: run
        for run in answer({"ask": "train", **state, "rules": ["flow", "gd", "sign", "adam"]})["runs"]
    }
    problem, start = hm.data.example("B-FIG-8"), state["starts"][0]
    flow = hm.flow(problem, until_log_time=1e6, start=start)
    assert runs["flow"]["norm"] == flow.p_norm
    assert runs["flow"]["log_time"] == pytest.approx(1e6)
    assert runs["flow"]["selection"] == flow.selection == (0, 0)
    adam = hm.train(problem, hm.optim.Adam(0.1), steps=10_000, start=start)
    assert runs["adam"]["norm"] == adam.p_norm
    assert runs["adam"]["selection"] == runs["sign"]["selection"] == adam.selection == (0, 1)
    assert runs["gd"]["selection"] == (0, 0)
    frames = runs["flow"]["frames"]
    assert frames["losses"][0] == hm.loss(problem, start)
    first = hm.attention(problem, start)
    assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(frames["attention"][0], first, strict=True))
    # far beyond any float: the loss is above its limit by e^(-1e5) and less
    assert frames["log_excess"][-1] < -1e5
    assert frames["times"] == sorted(frames["times"])


def test_every_rule_of_the_page_trains():
    message = {"ask": "train", "problem": B8, "starts": [[0.5, 0.5]], "rules": list(plane.RULES)}
    runs = answer(message)["runs"]
    assert [run["rule"] for run in runs] == list(plane.RULES)
    assert all(run["selection"] in ((0, 0), (0, 1)) for run in runs)


def test_the_field_says_where_starts_end():
    told = answer({"ask": "field", "problem": B8, "span": 3.2, "level": 1})
    problem = hm.data.example("B-FIG-8")
    listed = [each.selection for each in hm.attractors(problem)]
    n = told["cells"]
    assert n == 12
    assert len(told["grid"]) == len(told["grid"][0]) == 13
    for j, i in [(0, 0), (12, 0), (3, 9), (6, 12), (0, 12), (12, 12)]:
        start = [3.2 * (2 * i / n - 1), 3.2 * (2 * j / n - 1)]
        run = hm.train(problem, hm.optim.Normalized(0.02), steps=3000, start=start)
        assert listed[told["grid"][j][i]] == run.selection
    known = told["grid"].tolist()
    finer = answer({"ask": "field", "problem": B8, "span": 3.2, "level": 2, "known": known})
    whole = answer({"ask": "field", "problem": B8, "span": 3.2, "level": 2})
    assert np.array_equal(finer["grid"], whole["grid"])
    assert finer["ran"] < whole["ran"] < whole["of"] == 625
    assert whole["undecided"] == 0


@pytest.mark.parametrize("name", plane.FIELDS)
def test_starts_are_judged_by_the_runs_of_descend(name):
    """The prepared loop gives the points of `hm.train` to the bit, for every rule of the field."""
    problem = hm.data.sphere(n=3, T=4, d=2, rng=5)
    starts = np.random.default_rng(0).normal(size=(4, 2))
    step = plane.rule("normalized" if name == "flow" else name, 0.1)
    points = points_from(problem, step, 60, starts, record=[54])
    for start, found in zip(starts, points, strict=True):
        run = hm.train(problem, step, steps=60, start=start, record=[54])
        assert np.array_equal(found, run.points)


def test_a_start_is_judged_only_where_training_drives_it_on():
    """B-FIG-1b has a slow border: decided starts end where a long run ends, the others say undecided."""
    problem, span = hm.data.example("B-FIG-1b"), 3.2
    rows = [each.max_margin.constraints.rows() for each in hm.attractors(problem)]
    judge = plane.Judge(problem, plane.rule("normalized", plane.TRAVEL * span / plane.FIELD_STEPS), rows)
    starts = plane._places(24, span).reshape(-1, 2)
    short = judge.ends(starts)
    judge.steps = 20_000
    late = judge.ends(starts)
    judge.steps = plane.LONGER * plane.FIELD_STEPS
    longer = judge.ends(starts)
    assert (short == plane.UNDECIDED).any()
    assert not (late == plane.UNDECIDED).any()
    assert np.array_equal(longer, late)
    assert (short != late).sum() < 10


def test_starts_that_end_nowhere_stay_undecided():
    """Two inputs that pull against each other: p rests between them and no direction is claimed."""
    keys = [[[1.0, 0.0], [-1.0, 0.0]], [[-1.0, 0.3], [1.0, 0.3]]]
    problem = {"keys": keys, "scores": [[1.0, 0.0], [1.0, 0.0]]}
    assert answer({"ask": "solve", "problem": problem})["selections"] == []
    told = answer({"ask": "field", "problem": problem, "level": 2})
    assert told["undecided"] == told["of"] == 625


def test_the_usual_gradient_lies_where_the_softmax_is_saturated(scenes):
    state = scenes[4]
    needles = answer({"ask": "gradients", **state})["needles"]
    assert len(needles) == plane.NEEDLES**2
    middle = needles[len(needles) // 2]
    assert middle["at"] == [0.0, 0.0]
    assert middle["off"] < 1e-10
    lies = [each for each in needles if each["off"] is None or each["off"] > 0.01]
    assert len(lies) > 50
    problem = hm.Problem(state["problem"]["keys"], state["problem"]["scores"])
    for each in lies[:5]:  # the exact one agrees with the direction that many digits give
        assert np.allclose(each["exact"], digits_50(problem, each["at"]), atol=1e-9)


def digits_50(problem, p):
    """Minus the gradient of the logistic risk as a unit vector, in 200 digits."""
    import mpmath

    with mpmath.workdps(200):
        total = [mpmath.mpf(0), mpmath.mpf(0)]
        for K, gamma in zip(problem.split(problem.keys), problem.split(problem.scores), strict=True):
            logits = [mpmath.mpf(k[0]) * p[0] + mpmath.mpf(k[1]) * p[1] for k in K.tolist()]
            weights = [mpmath.exp(x) for x in logits]
            s = [w / sum(weights) for w in weights]
            u = sum(a * mpmath.mpf(g) for a, g in zip(s, gamma.tolist(), strict=True))
            slope = 1 / (1 + mpmath.exp(u))
            for a, g, k in zip(s, gamma.tolist(), K.tolist(), strict=True):
                for c in range(2):
                    total[c] += slope * a * (g - u) * mpmath.mpf(k[c])
        length = mpmath.sqrt(total[0] ** 2 + total[1] ** 2)
        return [float(x / length) for x in total]


def test_sentences_are_those_of_ntp_check():
    told = answer({"ask": "check", "sentences": [*BREAD, "we eat bread"]})
    found = hm.nexttoken.check([*BREAD, "we eat bread"])
    assert told["realizable"] is found.json()["realizable"] is False
    assert [each["kind"] for each in told["told"]] == [v.kind for v in found.analysis.violations]
    assert told["told"][0]["witnesses"] == ["[we eat] is followed by fresh, bread"]
    assert not told["learnable"]
    good = answer({"ask": "check", "sentences": BREAD})
    assert good["realizable"]
    assert {"query": "fresh", "edges": [["fresh", "we"], ["fresh", "eat"]]} in good["graph"]


def test_sentences_are_learnt_and_continued():
    learnt = answer({"ask": "learn", "sentences": BREAD})
    run = hm.nexttoken.training.train(hm.nexttoken.Samples.from_sentences(BREAD), steps=4000, rate=0.05)
    assert learnt["loss"] == run.loss
    assert learnt["misalignment"] == run.misalignment_kq
    first, last = learnt["frames"][0], learnt["frames"][-1]
    assert first["attention"][0] == {"we": 0.5, "eat": 0.5}
    assert [word for word, _ in last["next"]] == [each["next"] for each in learnt["sentences"]]
    told = answer({"ask": "predict", "sentences": BREAD, "prompt": "fresh we bread"})
    assert told == hm.nexttoken.predict_next(run.predictor, "fresh we bread").json()
    assert told["next"][0]["token"] == "bread"


def test_sentences_that_leave_attention_no_choice_are_continued():
    assert answer({"ask": "learn", "sentences": ["a b", "b a"]})["sentences"] == []
    assert answer({"ask": "predict", "sentences": ["a b", "b a"], "prompt": "a"})["next"][0]["token"] == "b"


def test_words_are_trained_as_embeddings():
    texts = [["a good film", 1], ["a bad film", -1]] * 8
    told = answer({"ask": "words", "texts": texts, "epochs": 20, "rate": 0.1})
    assert told["words"] == ("a", "good", "film", "bad")
    last = dict(zip(told["words"], told["frames"][-1]["value"], strict=True))
    assert last["good"] > 0 > last["bad"]
    assert told["posterior"].tolist() == [0.0, 1.0, 0.0, -1.0]
    corpus = hm.Corpus.from_sequences([text for text, _ in texts], [y for _, y in texts])
    trained = hm.embeddings.minibatch.train_embeddings(
        corpus, 64, hm.optim.AdamW(0.1), epochs=20, batch=64, rng=0
    )
    assert told["loss"] == trained.loss


def test_copied_python_makes_the_same_picture(scenes, capsys, monkeypatch):
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: None)
    state = scenes[3]
    lines = answer({"ask": "python", "state": state})["lines"]
    room = {}
    exec("\n".join(lines), room)
    assert room["runs"]["adam"][0].selection == (0, 1)
    assert room["runs"]["gd"][0].selection == (0, 0)
    assert "adam ['0 1']" in capsys.readouterr().out
    told = answer({"ask": "train", **state})["runs"]
    assert [run["norm"] for run in told] == [runs[0].p_norm for runs in room["runs"].values()]
    assert np.array_equal(room["grid"], answer({"ask": "field", **state, "rule": "flow", "level": 4})["grid"])
    # paths, two directions, two inputs and the field, within the page's window
    (axes,) = room["figure"].axes
    assert (len(axes.lines), len(axes.collections), len(axes.images)) == (4 + 2, 2, 1)
    assert axes.get_xlim() == (-state["span"], state["span"])
    plt.close(room["figure"])
    first = answer({"ask": "python", "state": scenes[0]})["lines"]
    assert "runs['flow'] = [hm.flow(problem, until_log_time=1e+06, start=start) for start in starts]" in first
    sentences = answer({"ask": "python", "state": scenes[5]})["lines"]
    exec("\n".join(sentences), {})
    assert "not realizable" in capsys.readouterr().out
    few = [["a good film", 1], ["a bad film", -1]] * 4
    texts = {"scene": "words", "texts": few, "epochs": 5, "rate": 0.1}
    exec("\n".join(answer({"ask": "python", "state": texts})["lines"]), room)
    assert room["trained"].loss == answer({"ask": "words", **texts})["loss"]


def test_a_downloaded_file_is_one_that_commands_read(scenes, tmp_path):
    told = answer({"ask": "file", "state": scenes[1]})
    (tmp_path / told["name"]).write_text(told["content"])
    found = hm.solve(tmp_path / told["name"])
    assert [each.selection for each in found.selections] == [(1,), (0,)]
    told = answer({"ask": "file", "state": scenes[5]})
    (tmp_path / told["name"]).write_text(told["content"])
    assert hm.nexttoken.check(tmp_path / told["name"]).exit_code == 1


def test_a_link_holds_the_state(scenes):
    for state in scenes:
        assert links.state_of("http://127.0.0.1:1/" + links.encoded(state)) == json.loads(json.dumps(state))
    assert links.opening(None) == ("", None)
    with pytest.raises(ValueError, match="a link must hold a state"):
        links.state_of("http://127.0.0.1:1/#nonsense")
    with pytest.raises(ValueError, match="problem must be a Problem"):
        links.state_of(3.0)


def test_a_file_with_a_number_sign_in_its_name_is_not_a_link(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hm.data.example("B-FIG-8").save("my#1.json")
    hm.data.example("B-FIG-8").save("#1.json")
    (tmp_path / "all#notes").write_text("not a problem")
    for name in ("my#1.json", "#1.json", str(tmp_path / "my#1.json")):
        assert links.state_of(name)["problem"]["keys"] == B8["keys"]
    with pytest.raises(FileNotFoundError, match="my#2"):
        links.state_of("my#2.json")
    with pytest.raises(ValueError, match="all#notes"):
        links.state_of("all#notes")


def test_what_is_too_long_for_an_address_is_kept(tmp_path):
    """Sentences of 5 MB once made an address of 6.9 MB."""
    assert links.opening(BREAD)[1] is None
    many = [f"word{k} next{k}" for k in range(5_000)]
    end, state = links.opening(many)
    assert (end, state["sentences"]) == ("", many)
    file = tmp_path / "large.txt"
    file.write_text("word next\n" * 500_000)
    with pytest.raises(ValueError, match=r"must open with at most 4,000,000 bytes, got 6,"):
        links.opening(file)


def test_a_file_of_a_problem_or_of_sentences_opens(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("\n".join(BREAD))
    assert links.state_of(file)["sentences"] == BREAD
    hm.data.example("B-FIG-8").save(tmp_path / "b8.json")
    assert links.state_of(str(tmp_path / "b8.json"))["problem"]["keys"] == B8["keys"]


@pytest.mark.parametrize("place", range(6))
def test_every_scene_of_the_tour_is_answered(scenes, place):
    state = scenes[place]
    if state["scene"] == "sentences":
        assert answer({"ask": "check", **state})["realizable"] is False
        return
    told = answer({"ask": "solve", **state})
    assert [each["certified"] for each in told["selections"]] == [True] * (1, 2, 2, 2, 1)[place]
    runs = answer({"ask": "train", **state})["runs"]
    assert len(runs) == len(state["starts"]) * len(state["rules"])
    # at a start on the border of two basins a run may hang between them; the tour has none
    assert all(run["selection"] is not None and run["event"] is None for run in runs)
    if place == 1:
        assert {run["nearest"] for run in runs} == {0, 1}


def test_every_question_refuses_what_it_does_not_understand():
    for name in set(QUESTIONS) - {"tour"}:
        with pytest.raises(ValueError, match="must"):
            answer({"ask": name})
    with pytest.raises(ValueError, match="ask must be one of tour, solve"):
        answer({"ask": "open"})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"norm": "l7"}, "norm must be one of"),
        ({"problem": {**B8, "loss": "log"}}, "loss must be one of logistic, exponential, correlation"),
        ({"problem": {**B8, "path": "x"}}, "keys, scores and loss, got 'path' too"),
        ({"problem": {**B8, "keys": [[[1, 2, 3]]]}}, "each key must be two numbers"),
        ({"problem": {**B8, "keys": [[[1e300, 0]] * 2, [[0, 1]] * 2]}}, "each key must be two numbers"),
        ({"problem": {**B8, "scores": [[True, 0], [1, 0]]}}, "scores must be numbers"),
        ({"problem": {**B8, "scores": [[1, 0]]}}, "scores must"),
        ({"problem": {"keys": [[[0.0, 1.0]] * 10_000], "scores": [[0.0] * 10_000]}}, "at most 240"),
        ({"problem": {"keys": [[[0.0, 1.0]]] * 30, "scores": [[0.0]] * 30}}, "at most 24"),
    ],
)
def test_problems_are_refused_in_a_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        answer({"ask": "solve", "problem": B8, **copy.deepcopy(change)})


def test_degenerate_problems_are_answered():
    """One token, equal tokens, tokens on a line: never an error that is not a sentence."""
    one = answer({"ask": "solve", "problem": {"keys": [[[1, 1]]], "scores": [[1]]}})
    assert one["selections"][0]["bands"] is None
    for keys in ([[[1, 1], [1, 1]]], [[[0, 0], [0, 0], [1, 0]]], [[[-1, 0], [0, 0], [1, 0]]]):
        problem = {"keys": keys, "scores": [list(range(len(keys[0])))]}
        told = answer({"ask": "solve", "problem": problem})
        runs = answer(
            {"ask": "train", "problem": problem, "starts": [[0, 0]], "rules": ["flow", "gd", "adam"]}
        )
        assert math.isfinite(runs["runs"][0]["norm"])
        assert "selections" in told
        answer({"ask": "field", "problem": problem, "level": 0})
        answer({"ask": "gradients", "problem": problem})
