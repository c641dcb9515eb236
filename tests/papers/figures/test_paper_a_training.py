"""Figures 1 to 4 of paper A: claims hold and can fail, what is drawn says what it is, long work goes on."""

import random
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

import hardmax as hm
from hardmax._lib.extras import install
from hardmax.dynamics.optim import AdamW
from hardmax.embeddings import KLevel, initial_vectors
from hardmax.embeddings.two_layer import TwoLayerNetwork
from hardmax.papers.figures.claims import failed
from hardmax.papers.figures.figure import Setting, recipes_of
from hardmax.papers.figures.reproduce import FigureJob
from hardmax.papers.figures.tables import part
from hardmax.papers.trained_embeddings import reviews, training
from hardmax.papers.trained_embeddings.reviews import ClosedForm, Size, schedule, train_closed_form, trained
from hardmax.papers.trained_embeddings.training import (
    Case,
    Share,
    draw_training,
    rises,
    train,
    training_tables,
)

IDS = ("A-FIG-1", "A-FIG-2", "A-FIG-3", "A-FIG-4")
SURROGATE = KLevel.surrogate()


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_claims_hold_and_the_picture_redraws(id, check_redrawn, computed):
    figure = computed(id)
    assert [(claim.id, claim.measured) for claim in figure.failed] == []
    ids = [claim.id for claim in figure.claims]
    assert len(set(ids)) == len(ids) >= 8
    assert all(each.startswith(id + ".") for each in ids)
    assert any("AdamW it is silent" in note for note in figure.notes)
    if id != "A-FIG-4":  # which is drawn by the function that draws A-FIG-1
        check_redrawn(figure)


@pytest.mark.slow
@pytest.mark.parametrize("id, sources", [("A-FIG-1", ["IMDB"]), ("A-FIG-3", ["IMDB", "Yelp"])])
def test_a_surrogate_says_on_the_figure_that_it_is_one(id, sources, computed):
    figure = computed(id)
    assert figure.tables["cases"]["text"].tolist() == [False] * len(sources)
    canvas = figure.plot()
    headings = [each.get_suptitle() for each in canvas.subfigs or [canvas]]
    for source, heading in zip(sources, headings, strict=True):
        assert heading.startswith(f"stand-in data: not {source}; d = 64")
        assert any(note.startswith(f"{source}: no folder of real data") for note in figure.notes)


# -- A-FIG-2 ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_synthetic_numbers_from_its_own_tables(computed):
    tables = computed("A-FIG-2").tables
    tokens = part(tables["tokens"], "case", training.KLEVEL)
    assert len(tokens["token"]) == 2048  # at this size every token occurs
    sides = [tokens["posterior_difference"][tokens["sign"] == sign].mean() for sign in (-1, 0, 1)]
    # sum over levels of the size times 1 - 2 delta_k, over 542
    assert sides == pytest.approx([-0.8528, 0.0, 0.8528], abs=0.02)
    ranks = [np.argsort(np.argsort(x)) for x in (tokens["posterior_difference"], tokens["E_v"])]
    course = part(tables["course"], "case", training.KLEVEL)
    assert course["epoch"].tolist() == [0, 1, 2, 5, 10, 20, 50, 100, 196]
    assert course["r_v"][-1] == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=0.01)
    assert abs(course["r_v"][0]) < 0.1
    assert abs(course["r_p"][0]) < 0.1
    losses = part(tables["losses"], "case", training.KLEVEL)["loss"]
    assert losses[0] == pytest.approx(np.log(2), abs=0.01)
    assert losses[-1] < 0.05
    lines = part(tables["lines"], "case", training.KLEVEL)
    assert len(lines["E_p"]) == 2 * 8 + 1


def test_levels_may_be_taken_together():
    means, sizes = np.array([1.0, 4.0, 3.0, 7.0]), (2, 1, 1, 3)
    assert rises(means, sizes, together=1).tolist() == [3.0, -1.0, 4.0]
    assert rises(means, sizes, together=2).tolist() == [4.0]


def test_the_large_start_has_entries_of_size_one():
    E, p, v = training.large_start(30, 400)
    assert [E.std(), p.std()] == pytest.approx([1.0, 1.0], abs=0.1)
    assert v @ v == pytest.approx(1.0)


# -- claims that can fail -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_layer_case():
    data = reviews.surrogate("IMDB", "a test.")
    return trained(data, schedule(32, 20, (10, 16)), Share(Setting()), "none")


def names_of(claims):
    return {claim.id.split(".")[-1] for claim in failed(claims)}


def test_claims_about_a_training_can_fail(one_layer_case):
    case, found = one_layer_case, one_layer_case.training

    def fails(**changes):
        changed = replace(case, training=replace(found, **changes))
        return names_of(reviews.surrogate_claims("x", changed, SURROGATE, reviews.ONE_LAYER))

    assert fails(loss=1e-4) == set()
    assert fails(loss=0.1) == {"loss"}
    assert fails(loss=1e-4, c=-found.c) == {"r_v", "signs", "value-levels"}
    assert fails(loss=1e-4, a=-found.a) == {"r_p", "deciles", "irrelevant", "attention-levels"}
    shuffled = np.random.default_rng(0).permutation(found.c)
    assert fails(loss=1e-4, c=shuffled) >= {"r_v", "signs"}


def test_two_layers_must_be_far_below_one(one_layer_case):
    def ratio(two, one):
        cases = (
            replace(one_layer_case, training=replace(one_layer_case.training, loss=x)) for x in (two, one)
        )
        return reviews.compared_claim("x", *cases)

    assert ratio(1e-5, 1e-1).holds
    assert not ratio(0.09, 0.1).holds


def test_a_control_with_a_lower_loss_is_drawn_whole(one_layer_case):
    """As one layer was next to two at the paper's rate."""
    tables = training_tables([one_layer_case, replace(one_layer_case, name="control")])
    losses = tables["losses"]
    losses["loss"][losses["case"] == "control"] *= 1e-3
    canvas = Figure()
    draw_training(canvas, tables, one_layer_case.name, reviews.TEXT, control="control")
    panel = canvas.axes[3]
    assert panel.get_ylabel() == "loss"
    assert panel.get_ylim()[0] <= losses["loss"].min() <= 1e-2 * one_layer_case.training.epoch_losses.min()


def test_synthetic_claims_can_fail():
    model = KLevel(sizes=(4,) * 8, irrelevant=30, T=64)
    corpus = model.draw(256, rng=0)
    plan = replace(training.schedule_of(32), epochs=30, rate=5e-3)
    case = Case("x", "", plan, train(corpus, plan, Share(Setting()), "none"), model)
    found = case.training
    wrong = replace(case, training=replace(found, a=-found.a, c=-found.c, loss=0.69))
    names = names_of(training.judge(wrong, case, model, 2))
    assert names == {
        "vocabulary",
        "frequency",
        "r_v",
        "r_p",
        "pearson",
        "signs",
        "value-levels",
        "attention-levels",
        "irrelevant",
        "loss",
        "large-start",
        "large-start-loss",
    }


# -- two layers by the closed form --------------------------------------------------------------------------


def test_closed_form_steps_are_adamw_on_the_gradient():
    corpus = SURROGATE.draw(6, rng=0)
    E, p, v = initial_vectors(corpus.S, 8, rng=1)
    model = ClosedForm(E, p, v, AdamW(0.01, weight_decay=0.1))
    x, m, s = np.concatenate([E.ravel(), p, v]), 0.0, 0.0
    for step in (1, 2, 3):
        split = x[:-16].reshape(E.shape), x[-16:-8], x[-8:]
        found = TwoLayerNetwork().gradients(corpus, *split)
        assert model.step(corpus, 0.01) == pytest.approx(found.loss, rel=1e-12)
        g = np.concatenate([found.E.ravel(), found.p, found.v])
        m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
        x = x * (1 - 0.01 * 0.1) - 0.01 * (m / (1 - 0.9**step)) / (np.sqrt(s / (1 - 0.999**step)) + 1e-8)
    assert model.x == pytest.approx(x, rel=1e-10, abs=1e-13)
    assert np.array_equal(model.observe()[0], model.parameters[0] @ model.parameters[1])


def test_closed_form_goes_on_from_its_checkpoint(tmp_path):
    corpus = SURROGATE.draw(12, rng=0)
    options = {"rule": AdamW(1e-2, weight_decay=1e-8), "milestones": (2,), "rng": 3, "checkpoint_every": 1}
    straight = train_closed_form(corpus, 8, epochs=4, **options)
    file = tmp_path / "state.npz"
    train_closed_form(corpus, 8, epochs=2, checkpoint=file, **options)
    resumed = train_closed_form(corpus, 8, epochs=4, checkpoint=file, **options)
    assert np.array_equal(resumed.E, straight.E)
    assert (resumed.loss, resumed.epochs) == (straight.loss, 4)
    assert np.array_equal(resumed.losses, straight.losses)


# -- reviews ------------------------------------------------------------------------------------------------


def test_a_sample_of_reviews_is_purged_like_the_whole():
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 3, (200, 6))
    counts[:, 5] = 0
    counts[7] = [0, 0, 0, 0, 0, 9]  # a review of a rare token only
    labels = np.where(rng.random(200) < 0.6, 1, -1)
    whole = hm.Corpus.from_counts(counts, labels, list("abcdef"))
    sample = reviews.draw_reviews(whole, 150)
    assert set(sample.vocabulary) <= set("abcde")
    assert sample.statistics.total.min() >= reviews.LEAST
    rows = {(*row[:5], y) for row, y in zip(counts.tolist(), labels.tolist(), strict=True)}
    kept = [*zip(sample.matrix.toarray().tolist(), sample.labels.tolist(), strict=True)]
    assert sample.vocabulary == tuple("abcde")
    assert {(*row, y) for row, y in kept} <= rows
    assert 148 <= sample.n <= 150


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with an IMDB file of 80 reviews, none of Yelp, and sizes small enough for it."""
    monkeypatch.setenv("HARDMAX_CACHE", str(tmp_path / "cache"))
    tiny = Size(None, schedule(8, 6, (3, 5)))
    for sizes in (reviews.ONE_LAYER_SIZES, reviews.TWO_LAYER_SIZES):
        for scale in ("quick", "paper"):
            monkeypatch.setitem(sizes, scale, dict.fromkeys(reviews.SOURCES, tiny))
    monkeypatch.setattr(reviews, "ONE_LAYER_SURROGATE", tiny.schedule)
    monkeypatch.setattr(reviews, "TWO_LAYER_SURROGATES", dict.fromkeys(("quick", "paper"), tiny.schedule))
    draw = random.Random(0)
    lines = ["review,sentiment"]
    for number in range(80):
        words, label = (("superb", "lovely"), "positive") if number % 2 else (("dull", "awful"), "negative")
        text = [draw.choice(words) for _ in range(3)] + [
            draw.choice(("film", "actor", "plot")) for _ in range(5)
        ]
        lines.append(f"{' '.join(text)},{label}")
    data = tmp_path / "data"
    data.mkdir()
    (data / "IMDB Dataset.csv").write_text("\n".join(lines) + "\n")
    return data


def test_one_source_at_hand_and_the_other_not(folder):
    figure = hm.figure("A-FIG-3", data=folder)
    cases = figure.tables["cases"]
    assert cases["case"].tolist() == ["IMDB", "Yelp surrogate"]
    assert cases["says"].tolist() == [
        "IMDB, 80 reviews, 7 tokens; d = 8, 6 epochs",
        "stand-in data: not Yelp; d = 8, 6 epochs",
    ]
    tokens = part(figure.tables["tokens"], "case", "IMDB")
    signs = dict(zip(tokens["token"].tolist(), tokens["sign"].tolist(), strict=True))
    assert (signs["superb"], signs["dull"], signs["film"]) == (1, -1, 0)
    (missing,) = (note for note in figure.notes if "no yelp reviews in" in note)
    assert "yelp-dataset/yelp-dataset" in missing
    assert "--data DIR" in missing  # by which the command line knows a figure that real data would change
    assert any(
        "80 reviews read, none left out, 80 kept, of which 50% are positive" in x for x in figure.notes
    )
    claims = {claim.id.removeprefix("A-FIG-3.") for claim in figure.claims}
    assert {"imdb.signs", "imdb.deciles", "yelp.r_v"} <= claims
    assert "imdb.r_v" not in claims


@pytest.mark.extra
def test_two_layers_stand_beside_one(folder):
    pytest.importorskip("torch", reason="two layers are trained with PyTorch: make test-extras does")
    figure = hm.figure("A-FIG-1", data=folder)
    assert figure.tables["cases"]["case"].tolist() == ["IMDB", "one layer"]
    assert figure.tables["cases"]["text"].all()
    assert [claim.id for claim in figure.claims][-1] == "A-FIG-1.loss-ratio"
    figure.plot()


def test_without_torch_text_is_replaced_and_the_remedy_told(folder, monkeypatch):
    monkeypatch.setattr(reviews, "find_spec", lambda name: None)
    figure = hm.figure("A-FIG-1", data=folder)
    assert figure.tables["cases"]["text"].tolist() == [False]
    assert any(install("torch") in note for note in figure.notes)


def test_an_interrupted_training_goes_on_and_a_finished_one_stays(folder, tmp_path):
    def compute(out, progress):
        setting = FigureJob(recipes_of(["A-FIG-3"]), "paper", folder, tmp_path / out).setting
        return reviews.fig_3(replace(setting, progress=progress))

    heard = []

    def listen(done, what=""):
        heard.append(what)

    def interrupt(done, what=""):
        if "imdb, epoch 6 of 6" in what:
            raise KeyboardInterrupt

    straight = compute("straight", listen)
    assert [what for what in heard if what.startswith("A-FIG-3.imdb, epoch ")]
    heard.clear()
    with pytest.raises(KeyboardInterrupt):
        compute("broken", interrupt)
    assert (tmp_path / "broken" / "checkpoints" / "A-FIG-3.imdb.npz").is_file()
    again = compute("broken", listen)
    assert not any(what.startswith("A-FIG-3.imdb, epoch ") for what in heard)  # its last epoch was saved
    assert any("epoch 6 of 6" in what for what in heard)  # Yelp's surrogate had not begun
    assert again.notes == straight.notes
    for name, table in straight.tables.items():
        for column, values in table.items():
            assert np.array_equal(again.tables[name][column], values), (name, column)


def test_logits_are_scaled_on_reviews_only_and_the_figure_names_it(folder):
    printed, scaled = (hm.figure("A-FIG-3", data=folder, logits=logits) for logits in ("printed", "scaled"))
    says = scaled.tables["cases"]["says"].tolist()
    assert says[0].endswith("; logits over sqrt(d), not printed")
    assert says[1] == printed.tables["cases"]["says"][1]
    losses = [part(each.tables["losses"], "case", "IMDB")["loss"] for each in (printed, scaled)]
    assert abs(losses[0] - losses[1]).max() > 1e-3
    yelp = [part(each.tables["losses"], "case", "Yelp surrogate")["loss"] for each in (printed, scaled)]
    np.testing.assert_array_equal(*yelp)
    with pytest.raises(ValueError, match="logits must be one of printed, scaled, got 'both'"):
        hm.figure("A-FIG-3", logits="both")


def test_claims_about_a_surrogate_are_marked(folder):
    figure = hm.figure("A-FIG-3", data=folder)
    marks = {claim.id: claim.stand_in for claim in figure.claims}
    assert marks["A-FIG-3.yelp.r_v"]
    assert marks["A-FIG-3.yelp.signs"]
    assert not marks["A-FIG-3.imdb.signs"]


def stored(name, scale, **other):
    course = [
        {"epochs": k, "mean_loss": 0.1 / k, "r_v": 0.5, "r_p": 0.3, "sign_accuracy": 0.9}
        for k in (1, 10, 100)
    ]
    end = {"loss": 2e-5, "mass": 0.07, "r_v": 0.7, "r_p": 0.26, "sign_accuracy": 0.95}
    plan = {
        "data": "yelp",
        "layers": 2,
        "d": 2048,
        "rate": 1e-2,
        "seed": 0,
        "epochs_done": 100,
        "epochs": 100,
    }
    return {"name": name, "scale": scale, "course": course, **end, **plan, **other}


def test_stored_runs_stand_beside_the_figure_each_with_its_reading(one_layer_case, monkeypatch):
    runs = {
        "p": stored("p", None, loss=0.3, epochs=500),
        "s": stored("s", "1/sqrt(d)"),
        "i": stored("i", None, layers=1),
    }
    monkeypatch.setattr(reviews, "read_runs", lambda: runs)
    case = replace(one_layer_case, name="Yelp surrogate")
    found = reviews.findings(reviews.ReviewPart(case, (), ()), layers=2, sources=["Yelp"])
    rows = found.tables["stored"]
    readings = dict(zip(rows["run"].tolist(), rows["reading"].tolist(), strict=True))
    assert readings == {"p": "as printed", "s": "logits over sqrt(d)"}
    assert any(x.startswith("Stored run s, logits over sqrt(d): d = 2048, 100 epochs") for x in found.notes)
    assert any(x.startswith("Stored run p, as printed: d = 2048, 100 of 500 epochs") for x in found.notes)
    canvas = Figure()
    reviews.draw_source(canvas, found.tables, case.name)
    labels = [text.get_text() for text in canvas.axes[-1].get_legend().get_texts()]
    assert labels == ["as printed, 2048", "logits over √d, 2048"]
    assert canvas.axes[-1].get_title() == "(d) stored runs, Yelp"
    monkeypatch.setattr(reviews, "read_runs", dict)
    assert (
        "stored" not in reviews.findings(reviews.ReviewPart(case, (), ()), layers=2, sources=["Yelp"]).tables
    )


def test_a_day_is_less_than_the_paper_where_that_takes_days():
    sizes = reviews.TWO_LAYER_SIZES
    assert sizes["paper"]["IMDB"].schedule == reviews.schedule(2048, 500, (100, 200))
    assert sizes["day"]["IMDB"].schedule == reviews.schedule(2048, 30, (5, 25), rate=1e-3)
    assert [each.id for each in recipes_of() if each.reduced] == ["B-FIG-6", "B-FIG-7", "A-FIG-1"]


@pytest.mark.slow
def test_yelp_as_it_is(shared_data, tmp_path, monkeypatch):
    """Acceptance of the addendum on real reviews, at quick scale."""
    monkeypatch.setenv("HARDMAX_CACHE", str(tmp_path))
    found = reviews.one_layer_part("Yelp", Setting(data=shared_data))
    assert [(claim.id, claim.measured) for claim in failed(found.claims)] == []
    corpus = found.case.corpus
    assert (corpus.n, int((corpus.labels > 0).sum())) == (1758, 1254)
    assert "1,758 reviews" in found.case.says
    r_v = [each.r_v for each in found.case.training.snapshots]
    assert max(r_v) > 0.85  # and it falls with training
    assert r_v[-1] < max(r_v) - 0.1
