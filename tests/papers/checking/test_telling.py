"""A check in words."""

from typing import get_args

import hardmax as hm
from hardmax.papers.checking.check import MEANING, Verdict


def test_a_check_is_printed_as_a_paragraph():
    found = hm.check_statement("B-THM-3", hm.data.sphere(n=4, T=6, d=10, rng=0))
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 79
    assert len(str(found)) < 1000
    assert lines[0].startswith("B-THM-3, Theorem 3: local convergence of descent: holds")
    assert any(line.startswith("Met: ") for line in lines)
    assert "Slack: 0.99" in str(found)
    assert "<td>condition locally optimal</td><td>met</td>" in found._repr_html_()


def test_a_condition_that_is_not_met_is_told_with_its_number():
    opposed = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [1.0, 0.0]])
    told = " ".join(str(hm.check_statement("B-THM-2", opposed)).split())
    assert "not applicable (a condition is not met, so nothing is claimed)" in told
    assert "Not met: best tokens separable (measured 0)." in told
    assert "In the paper's own wording: fails." in told
    assert "Slack" not in told


def test_every_verdict_has_its_words():
    assert set(MEANING) >= set(get_args(Verdict))
