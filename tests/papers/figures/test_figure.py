"""Claims and figures: what a claim compares, which figures there are, and how one is made."""

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax._lib.style import style
from hardmax.papers.figures import figure as module
from hardmax.papers.figures.claims import at_least, at_most, between, failed, near, true
from hardmax.papers.figures.figure import Findings, Setting, figure, make, recipe, recipes_of

numbers = st.floats(-1e6, 1e6)
several = st.lists(numbers, min_size=1, max_size=6)


@given(several, numbers)
def test_bounds_hold_exactly_if_every_number_keeps_them(values, bound):
    least, greatest = at_least("x", "", values, bound), at_most("x", "", values, bound)
    assert (least.holds, least.measured) == (all(v >= bound for v in values), min(values))
    assert (greatest.holds, greatest.measured) == (all(v <= bound for v in values), max(values))


@given(several, numbers, numbers)
def test_between_is_both_bounds(values, a, b):
    low, high = sorted((a, b))
    claim = between("x", "", values, low, high)
    assert claim.holds == (min(values) >= low and max(values) <= high)
    assert np.min(claim.measured) == min(values)
    assert np.max(claim.measured) == max(values)


@pytest.mark.parametrize("measured", [[], float("nan"), [1.0, float("nan")]])
def test_no_claim_holds_for_want_of_numbers(measured):
    """An empty array, or one with an undefined entry, must never pass."""
    claims = [
        at_least("x", "", measured, -1e300),
        at_most("x", "", measured, 1e300),
        between("x", "", measured, -1e300, 1e300),
        near("x", "", measured, 1.0, 1e300),
    ]
    assert failed(claims) == claims


def test_near_takes_one_expected_value_or_one_for_each():
    each = near("x", "angles", [11.97, 1.0], [11.9, 1.0], 0.1)
    assert (each.expected, each.measured, each.holds) == ("11.9, 1 ± 0.1", [11.97, 1.0], True)
    assert not near("x", "angles", [11.97, 1.2], [11.9, 1.0], 0.1).holds
    one = near("x", "p1 from every start", [-12.17348, -12.1735], -12.17348, 1e-5)
    assert (one.expected, one.holds) == ("-12.17348 ± 1e-05", False)
    assert near("x", "angle", np.float64(3.0), 3, 0.0).measured == 3.0


def test_a_claim_in_words_keeps_the_paper_beside_it():
    claim = true("x", "goes to", np.bool_(False), "LMM", "GMM", paper="GMM")
    assert (claim.holds, claim.measured, claim.expected, claim.paper) == (False, "LMM", "GMM", "GMM")


def test_figures_are_found_by_id_and_by_paper(table):
    assert [each.id for each in recipes_of()] == ["B-FIG-90", "B-FIG-91", "C-FIG-92"]
    assert [each.id for each in recipes_of(paper="C")] == ["C-FIG-92"]
    assert [each.id for each in recipes_of(["B-FIG-91", "B-FIG-90", "B-FIG-91"])] == ["B-FIG-91", "B-FIG-90"]


@pytest.mark.parametrize(
    "ids, paper, words", [(["B-FIG-9o"], None, "B-FIG-90"), (["B-FIG-90"], "C", "got C"), (None, "A", "B, C")]
)
def test_an_unknown_figure_is_an_error_that_helps(table, ids, paper, words):
    with pytest.raises(ValueError, match=words):
        recipes_of(ids, paper)


def test_a_figure_carries_its_findings(table):
    found = figure("B-FIG-91")
    assert (found.id, found.title, found.scale, found.seed) == (
        "B-FIG-91",
        table["B-FIG-91"].title,
        "quick",
        None,
    )
    assert not found.holds
    assert [claim.id for claim in found.failed] == ["B-FIG-91.end", "B-FIG-91.nothing"]
    assert found.seconds >= 0
    assert figure("B-FIG-90").holds


def test_scale_data_and_progress_reach_the_computation(table, tmp_path):
    heard = []

    @recipe("B-FIG-93", "what it was given", draw=lambda tables, canvas: None)
    def compute(setting):
        setting.progress(0.25)
        return Findings({}, (true("x", "", setting.data == tmp_path, setting.scale, "paper"),))

    found = make(module.recipes()["B-FIG-93"], Setting("paper", tmp_path, heard.append))
    assert (found.claims[0].measured, found.holds, heard) == ("paper", True, [0.25])
    assert figure("B-FIG-93", scale="paper", data=str(tmp_path)).holds


def test_a_scale_that_does_not_exist(table):
    with pytest.raises(ValueError, match="one of quick, day, paper, got 'big'"):
        figure("B-FIG-90", scale="big")


def test_columns_must_be_of_one_length(table):
    @recipe("B-FIG-93", "uneven", draw=lambda tables, canvas: None)
    def compute(setting):
        return Findings({"path": {"t": np.arange(3), "cosine": np.arange(2)}}, ())

    with pytest.raises(AssertionError, match=r"path have lengths \[2, 3\]"):
        figure("B-FIG-93")


def test_plot_has_the_printed_size_and_the_project_style_only(table):
    found = figure("B-FIG-91")
    with matplotlib.rc_context({"font.size": 30, "axes.spines.top": True}):
        canvas = found.plot()
        assert matplotlib.rcParams["font.size"] == 30
    assert tuple(canvas.get_size_inches()) == (7.0, 2.4)
    panel = canvas.axes[0]
    assert panel.xaxis.label.get_size() == 8
    assert not panel.spines["top"].get_visible()


def test_style_is_undone_after_an_error():
    before = dict(matplotlib.rcParams)
    with pytest.raises(ZeroDivisionError), style():
        _ = 1 / 0
    assert dict(matplotlib.rcParams) == before
