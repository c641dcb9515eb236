"""No check of the next-token paper passes by saying yes: a wrong formula flips a verdict of each."""

import math
from typing import Any

import numpy as np
import pytest

from hardmax.margin.closed_forms.next_token import Block
from hardmax.nexttoken.late import Late
from hardmax.papers.checking.check import statements
from hardmax.papers.next_token.statements import convergence, gradients, loss, margins, printed, stage1
from hardmax.papers.next_token.statements import gradients as norms
from hardmax.papers.next_token.statements import loss as generalisation
from hardmax.papers.next_token.statements import margins as structure

pytestmark = pytest.mark.no_cover

margin_of, closed_form, constant = stage1.margin_of, stage1.stage_1, stage1.misalignment_constant
projection, lead, gain = gradients.projection, gradients.lead, convergence.gain
sizes_of, critical, growth = convergence.sizes_of, convergence.critical_step, generalisation.late_growth
proposition_1, segments, late_law = (
    printed.proposition_1,
    structure.broken_segments,
    Late.predicted_misalignment,
)
alpha, excess_rate = printed.lemma_7, Late.excess_rate
PRINTED, LOG_ODDS = margins.printed_column, gradients.log_odds


def swapped(edges: Any) -> Any:
    whole, _ = PRINTED(edges)
    high, low = Block(whole.non_optimal, whole.optimal).values
    return whole, {**dict.fromkeys(whole.optimal, high), **dict.fromkeys(whole.non_optimal, low)}


FLOW = "Example 1 by flow, the printed alpha"
RARE = "a sentence too rare (formal)"

# id, instance, where the formula lives, its name, what replaces it
MUTATIONS: list[tuple[str, str, Any, str, Any]] = [
    ("C-COR-1", "two tokens, T = 50,000", stage1, "margin_of", lambda *a: 1.000001 * margin_of(*a)),
    ("C-LEM-1", "Example 1", stage1, "SHARP", 0.7072),
    ("C-LEM-1", "C-FIG-2", stage1, "SHARP", 0.7072),
    ("C-LEM-2", "Example 1", stage1, "lemma_2_term", lambda V: -0.001),
    ("C-LEM-3", "C-FIG-2", stage1, "wrong_logits", lambda n, table: table.T),
    ("C-LEM-4", "Example 1", gradients, "projection", lambda m, n, Delta, W: projection(m, n, 1.0, W)),
    (
        "C-LEM-4",
        "two deciding tokens in a sentence",
        gradients,
        "projection",
        lambda m, n, Delta, W: projection(m, np.roll(n, 1), Delta, W),
    ),
    ("C-LEM-5", "C-FIG-2", gradients, "lead", lambda pairs, a: lead(pairs, a) - 0.1),
    ("C-LEM-5", "Example 1", gradients, "log_odds", lambda pairs, a: -LOG_ODDS(pairs, a)),
    ("C-LEM-6", "two tokens", norms, "SHARP", 0.7072),
    ("C-LEM-7", "C-FIG-2", convergence, "gain", lambda *a: 1.02 * gain(*a)),
    ("C-LEM-7", "C-FIG-2, the printed alpha", printed, "lemma_7", lambda *a: 1e-4 * alpha(*a)),
    ("C-LEM-7", FLOW, printed, "lemma_7", lambda *a: 0.0),
    ("C-PROP-1", "C-FIG-2", stage1, "stage_1", lambda n, t, eta: closed_form(n, t, 1.000001 * eta)),
    ("C-PROP-1", "C-FIG-2, the printed bound", printed, "proposition_1", lambda *a: proposition_1(*a) / 300),
    ("C-THM-1", "C-FIG-2", convergence, "scaled_gap", lambda gap, t: gap * t**2.05),
    ("C-THM-1", "Example 1", convergence, "SHARP", 1.5),
    (
        "C-THM-1",
        RARE,
        convergence,
        "sizes_of",
        lambda run, least_frequency: sizes_of(run, least_frequency=True),
    ),
    (
        "C-THM-2",
        "C-FIG-2",
        loss,
        "log_sentence_bound",
        lambda V, margin, off: math.log(V - 1) - margin * (1 - off),
    ),
    ("C-THM-2", "Example 1", Late, "excess_rate", lambda self, rate: 1.02 * excess_rate(self, rate)),
    ("C-THM-3", "C-FIG-2", generalisation, "late_growth", lambda run: 1.02 * growth(run)),
    (
        "C-THM-ASY",
        "Example 1, just above eta_c",
        convergence,
        "critical_step",
        lambda late: 1.1 * critical(late),
    ),
    (
        "C-THM-ASY",
        "Example 1, just below eta_c",
        convergence,
        "critical_step",
        lambda late: 0.9 * critical(late),
    ),
    (
        "C-THM-ASY",
        "C-FIG-2",
        Late,
        "predicted_misalignment",
        lambda self, length: 1.02 * late_law(self, length),
    ),
    ("C-THM-BLOCK", "slack relations", margins, "kq_column", lambda edges: PRINTED(edges)[1]),
    ("C-THM-BLOCK", "random graphs", margins, "kq_column", lambda edges: PRINTED(edges)[1]),
    ("C-THM-P2", "Example 1", margins, "printed_column", swapped),
    ("C-THM-S1", "Example 1", stage1, "stage_1", lambda n, t, eta: closed_form(n, t, 1.000001 * eta)),
    (
        "C-THM-S1",
        "Example 1 from a random start",
        stage1,
        "misalignment_constant",
        lambda *a: 1.02 * constant(*a),
    ),
    ("C-THM-STRUCT", "Example 1", structure, "broken_segments", lambda s, n: segments(s, np.argsort(n))),
    ("C-THM-STRUCT", "C-FIG-2", structure, "most_sentences", lambda samples: 2 * samples.V),
]


@pytest.mark.parametrize(
    "id, name, module, formula, mutant", MUTATIONS, ids=[f"{each[0]}: {each[3]}" for each in MUTATIONS]
)
def test_a_wrong_formula_flips_the_verdict(
    id: str, name: str, module: Any, formula: str, mutant: Any, flips: Any
) -> None:
    assert flips(id, name, module, formula, mutant)


def test_every_statement_has_a_mutation() -> None:
    assert {each[0] for each in MUTATIONS} == {id for id in statements() if id.startswith("C-")}
