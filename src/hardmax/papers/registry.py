"""The one registry: the papers, and where each of their statements and figures lives; errata in a sentence.

A statement or figure enters its table by the decorator `statement` or `recipe` when its file is imported,
and its file is imported when it is asked for. A file outside the package enters its own in the same way.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Paper:
    """A paper: its letter in all ids, what it is about, and which file holds which statement and figure.

    >>> from hardmax.papers.registry import PAPERS
    >>> PAPERS["B"].about, PAPERS["B"].figures["B-FIG-RHO"]
    ('max-margin selection', 'rho')
    """

    letter: str
    about: str
    title: str
    folder: str  # below hardmax.papers
    statements: Mapping[str, str]  # id -> file in the folder's statements
    figures: Mapping[str, str]  # id -> file in the folder's figures, in the order of the paper
    weighted: bool = True  # whether its statements allow weights and counts


class Registry(Generic[Thing]):
    """Things by id, each imported from its file when it is first asked for.

    >>> from hardmax.papers.registry import Registry
    >>> numbers = Registry("number", {})
    >>> numbers.enter("one", 1)
    >>> numbers["one"], list(numbers.all())
    (1, ['one'])
    """

    def __init__(self, kind: str, places: Mapping[str, str]) -> None:
        self.kind = kind
        self.places = dict(places)  # id -> module
        self.entered: dict[str, Thing] = {}

    def enter(self, id: str, thing: Thing) -> None:
        """Take a thing in under its id, in place of an earlier one: a notebook's cell may be run again."""
        self.entered[id] = thing

    def __getitem__(self, id: str) -> Thing:
        known = list(dict.fromkeys([*self.places, *self.entered]))
        if id not in known:
            id = self._meant(id, known)
        if id not in self.entered:
            import_module(self.places[id])
        return self.entered[id]

    def _meant(self, id: str, known: list[str]) -> str:
        """Return the one id that ends in "-9a" where "9a" was given; a ValueError suggests others."""
        ending = [each for each in known if each.upper().endswith(f"-{id.upper()}")]
        if len(ending) == 1:
            return ending[0]
        near = ending or difflib.get_close_matches(id.upper(), known, n=3, cutoff=0)
        raise ValueError(f"unknown {self.kind} {id!r}. Did you mean {' or '.join(near)}?")

    def all(self) -> dict[str, Thing]:
        """Everything by id: the papers' in their order, then what others entered."""
        for place in dict.fromkeys(self.places.values()):
            import_module(place)
        return {id: self.entered[id] for id in dict.fromkeys([*self.places, *self.entered])}


PAPERS = {
    "B": Paper(
        "B",
        "max-margin selection",
        "Max-Margin Token Selection in Attention Mechanism",
        "max_margin",
        statements={
            "B-APP-E": "several_optimal",
            "B-ASM-B": "foundations",
            "B-ASM-C": "foundations",
            "B-ASM-D": "foundations",
            "B-EQ-73": "finite",
            "B-EQ-75": "finite",
            "B-EQ-79": "finite",
            "B-EQ-84": "finite",
            "B-ERR-21": "convergence",
            "B-NEW-1": "joint_training",
            "B-NEW-1b": "joint_training",
            "B-NEW-2": "paths",
            "B-NEW-3": "paths",
            "B-NEW-4": "index",
            "B-THM-1": "paths",
            "B-THM-L1": "foundations",
            "B-THM-2": "convergence",
            "B-THM-2M": "convergence",
            "B-THM-L2": "foundations",
            "B-THM-3": "local",
            "B-THM-L3": "gradients",
            "B-THM-4": "local",
            "B-THM-L4": "gradients",
            "B-THM-5": "joint_training",
            "B-THM-L5": "gradients",
            "B-THM-6": "joint_training",
            "B-THM-L6": "gradients",
            "B-THM-L7": "local",
            "B-THM-8": "several_optimal",
            "B-THM-8N": "several_optimal",
            "B-THM-L8": "directions",
            "B-THM-L9": "directions",
            "B-THM-L10": "directions",
            "B-THM-L14": "several_optimal",
        },
        figures={
            "B-FIG-1a": "convergence",
            "B-FIG-1b": "convergence",
            "B-FIG-1c": "convergence",
            "B-FIG-2": "cone",
            "B-FIG-3a": "trained_head",
            "B-FIG-3b": "trained_head",
            "B-FIG-3c": "trained_head",
            "B-FIG-RHO": "rho",
            "B-FIG-INDEX": "index",
            "B-FIG-CHAOS": "chaos",
            "B-FIG-4": "rates",
            "B-FIG-5": "rates",
            "B-FIG-6": "vision.figures",
            "B-FIG-7": "vision.figures",
            "B-FIG-8": "basins",
            "B-FIG-9a": "random_data",
            "B-FIG-9b": "random_data",
            "B-FIG-10": "random_data",
        },
        weighted=False,
    ),
    "C": Paper(
        "C",
        "next-token prediction",
        "Non-asymptotic Convergence of Training Transformers for Next-token Prediction",
        "next_token",
        statements={
            "C-COR-1": "stage1",
            "C-LEM-1": "stage1",
            "C-LEM-2": "stage1",
            "C-LEM-3": "stage1",
            "C-LEM-4": "gradients",
            "C-LEM-5": "gradients",
            "C-LEM-6": "gradients",
            "C-LEM-7": "convergence",
            "C-PROP-1": "stage1",
            "C-THM-ASY": "convergence",
            "C-THM-BLOCK": "margins",
            "C-THM-STRUCT": "margins",
            "C-THM-1": "convergence",
            "C-THM-S1": "stage1",
            "C-THM-2": "loss",
            "C-THM-P2": "margins",
            "C-THM-3": "loss",
        },
        figures={
            "C-FIG-1": "example",
            "C-FIG-2a": "stage1",
            "C-FIG-2b": "stage1",
            "C-FIG-2c": "stage1",
            "C-FIG-2d": "stage2",
            "C-FIG-2e": "stage2",
            "C-FIG-2f": "stage2",
            "C-FIG-RATE": "rate",
            "C-FIG-BOUNDS": "bounds",
        },
    ),
    "A": Paper(
        "A",
        "trained embeddings",
        "Attention with Trained Embeddings Provably Selects Important Tokens",
        "trained_embeddings",
        statements={
            "A-DEF-16": "local",
            "A-ERR-5": "tied",
            "A-EVT-14": "first_step",
            "A-LEM-2": "first_step",
            "A-LEM-3": "margins",
            "A-LEM-3P": "margins",
            "A-LEM-6": "gradients",
            "A-LEM-7": "gradients",
            "A-LEM-8": "gradients",
            "A-LEM-9": "convergence",
            "A-LEM-10": "gradients",
            "A-LEM-11": "first_step",
            "A-LEM-12": "first_step",
            "A-LEM-13": "convergence",
            "A-LEM-14": "theorem",
            "A-LEM-17": "local",
            "A-LEM-18": "theorem",
            "A-LEM-19": "tied",
            "A-LEM-20": "margins",
            "A-LEM-21": "margins",
            "A-SEC-3": "convergence",
            "A-THM-5": "theorem",
            "A-THM-5S": "theorem",
        },
        figures={
            "A-FIG-1": "two_layers",
            "A-FIG-2": "synthetic",
            "A-FIG-3": "one_layer",
            "A-FIG-4": "two_layers",
            "A-FIG-L2": "lemma2",
            "A-FIG-T5": "theorem5",
        },
    ),
    # Our own part: no single paper, but what a dozen of them say of norms and optimisers, held together.
    "D": Paper(
        "D",
        "geometry",
        "Geometry: queries, norms, optimizers, data that do not separate",
        "geometry",
        statements={
            "D-CONJ-0": "norms",
            "D-CONJ-1": "factor_training",
            "D-CONJ-2": "factor_training",
            "D-CONJ-3": "memory",
            "D-CONJ-4": "surviving",
            "D-CONJ-5": "surviving",
            "D-THM-1": "factors",
            "D-THM-2": "factors",
            "D-THM-3": "rates",
            "D-THM-4": "norms",
            "D-THM-5": "rates",
            "D-THM-6": "rates",
            "D-THM-7": "memory",
            "D-THM-8": "split",
            "D-THM-9": "memory",
            "D-THM-9b": "memory",
            "D-THM-10": "rates",
            "D-THM-11": "split",
            "D-THM-12": "split",
            "D-THM-13": "classes",
            "D-THM-14": "classes",
            "D-THM-15": "classes",
        },
        figures={
            "D-FIG-OPTIMISERS": "optimizers",
            "D-FIG-STEPS": "rates",
            "D-FIG-ADAM": "adam",
            "D-FIG-NORMS": "norms",
            "D-FIG-FACTORS": "factors",
            "D-FIG-CYCLES": "cycles",
            "D-FIG-CLASSES": "classes",
            "D-FIG-SOFT": "soft_labels",
        },
    ),
}


def places(part: str) -> dict[str, str]:
    """Where every statement (``part`` is "statements") or figure ("figures") of the papers is: id -> module.

    >>> from hardmax.papers.registry import places
    >>> places("statements")["B-THM-3"]
    'hardmax.papers.max_margin.statements.local'
    """
    found: dict[str, str] = {}
    for paper in PAPERS.values():
        files = paper.statements if part == "statements" else paper.figures
        found |= {id: f"hardmax.papers.{paper.folder}.{part}.{file}" for id, file in files.items()}
    return found


# What is wrong in a paper, or new here, in a sentence each; docs/research/errata.md tells it in full.
ERRATA = {
    "B-ERR-01": "The max-margin direction of the best-scoring tokens need not exist: they must be separable.",
    "B-ERR-02": "Theorem 6 does not say how |v| and |p| grow together, and the limit of p depends on it.",
    "B-ERR-03": "The appendix places the red bars in figure 9b (they are in 9a) and gives two step sizes.",
    "B-ERR-04": "The abstract and one section write softmax(XWp), the rest of the paper XW'p.",
    "B-ERR-05": "The reference for ViT-base is another paper, and 16 x 16 patches do not fit the images.",
    "B-ERR-06": "The optimal token's probability is defined by a maximum over tokens; early they differ.",
    "B-ERR-07": "The proof of Theorem 1 needs positive best scores; the theorem does not.",
    "B-ERR-08": "The delta of Lemma 7 says nothing about an input without neighbours.",
    "B-ERR-09": "The radius of Lemma 8 depends on the second margins too, not on the first ones alone.",
    "B-ERR-10": "General position must be read for a fixed selection; with free tokens nothing has it.",
    "B-ERR-11": "The average correlation of 0.997 measures the small constant added to the gradient's norm; "
    "exact normalised descent gives 0.9999 and more.",
    "B-ERR-12": "The correlation with p_mm does not rise all along: it may fall first, and rises later.",
    "B-ERR-13": "A support vector is a tight constraint, not one with a positive multiplier.",
    "B-ERR-14": "That no finite point is critical needs Assumption B and separable best tokens.",
    "B-ERR-15": "With tied best scores or twin keys the globally optimal direction is not unique, or absent.",
    "B-ERR-16": "Slips in the proofs: indices, signs, a missing factor.",
    "B-ERR-17": "Lemma 1 for normalised descent needs the step eta/|u|.",
    "B-ERR-18": "The public notebooks keep the score as a coordinate of the keys; in general that turns the "
    "direction.",
    "B-ERR-19": "In the first step the logistic loss favours the high score for score gaps from 2 to 5.",
    "B-ERR-20": "Regularisation paths minimise problems that are not convex, so there may be several.",
    "B-ERR-21": "That descent only tends to locally optimal directions is false for exceptional starts.",
    "B-ERR-22": "That |W| grows many times in a vision transformer is the small start's doing: from Xavier's "
    "start attention becomes as sparse while |W| hardly grows.",
    "B-NEW-1": "With |v| growing like rho |p|, p tends to a direction between p_mm and the relaxed one.",
    "B-NEW-1b": "Which tokens the other inputs select may depend on rho itself.",
    "B-NEW-2": "The regularisation path is R p_mm/|p_mm| + w + O(1/R), with w from a linear system.",
    "B-NEW-3": "Late normalised descent is stable below the step eta_c = 2/(|p_mm| lambda_max); above "
    "it periods double, and motion may become chaotic.",
    "B-NEW-4": "(-1)^index of finite stationary points and of critical directions at infinity sum to 1.",
    "A-ERR-1": "The printed sizes of the synthetic vocabulary give 1538 tokens, not 2048; 4 + 2^k does.",
    "A-ERR-2": "The third case of equation (34) needs delta-tilde, or the probabilities do not add up.",
    "A-ERR-3": "In the synthetic data, irrelevant tokens are 21 times as frequent as relevant ones.",
    "A-ERR-4": "Slips of wording: importance falls with delta_k, labels are +-1, epoch 200 is never reached.",
    "A-ERR-5": "At infinite width Lemma 19's condition cannot be met where p_hat.v = 0: some pattern with "
    "ties is at least as short. At its finite widths nothing is proved.",
    "A-ERR-6": "Constants in the proof of Lemma 19: a factor T - 1, the initial values, a maximum.",
    "A-ERR-7": "Constraints need not be tight: the closed form in the proof of Lemma 3 may be no solution.",
    "A-ERR-8": "Problem (18) drops the ties of problem (9), and its solution may select other tokens.",
    "A-ERR-9": "The equations Mp = 1 in the proof of Lemma 3 may contradict each other.",
    "A-ERR-10": "Lemma 13 needs important tokens to have the larger values; its width does not give that.",
    "A-ERR-11": "Lemma 6 is trivial, and that only important tokens are selected does not follow from it.",
    "A-ERR-12": "The proofs of Lemmas 18 and 19 do not cover limits with ties; Theorem 5 has none.",
    "A-ERR-13": "The proof of Lemma 2 uses exp(z) <= 1 + |z|, which is false for z > 0; the bound stands.",
    "A-ERR-14": "Typing errors in Lemmas 10, 12 and 17.",
    "A-ERR-15": "Lemma 21 uses lengths and overlaps of initial embeddings that event (14) does not bound.",
    "A-ERR-16": "If everything is tied there is no max-margin direction; Lemma 3 must exclude that.",
    "A-ERR-17": "The proof of Lemma 14 has a square too many and a wrong reference; both are harmless.",
    "C-ERR-01": "The collocation is not shown to be injective, and it must be.",
    "C-ERR-02": "Assumption 1 does not ask that a sentence reaches its next token, and it must.",
    "C-ERR-03": "The printed token types overlap: a non-comparable token is optimal and non-optimal too.",
    "C-ERR-04": "A non-comparable token may stand in the data: the query whose only sentence is itself.",
    "C-ERR-05": "Proposition 2's formula is right for one optimal token per query and wrong for several.",
    "C-ERR-06": "The factor N in Theorem 1 must be 1/min pi; the counterexample is formal.",
    "C-ERR-07": "Proposition 1 has the constant 5 in the text and 12 in the appendix; the cosine is 1.",
    "C-ERR-08": "Two rates are given for the loss of stage 1; the true one is eta0/|W_ov*|.",
    "C-ERR-09": "Corollary 1's upper bound 3 Delta on the margins is false for every vocabulary, and the "
    "least loss is not V exp(-T C_0).",
    "C-ERR-10": "Theorem 1 and Lemma 6 differ by L_max in the norm; t eta/(sqrt 2 |W_kq*|) is right.",
    "C-ERR-11": "The constant 1696 in (13) must be 1728, and one |W_kq*| lacks its square.",
    "C-ERR-12": "Slips in the proof of Lemma 7, among them that it needs three sentences.",
    "C-ERR-13": "Assumption 3 says something else in words than in its formula; the formula is meant.",
    "C-ERR-14": "Lemma 5's induction must be on the masses of tokens, not on positions.",
    "C-ERR-15": "The cosine of the gradient with W_kq* does not always exceed the least optimal weight.",
    "C-ERR-16": "Only the direction of W_kq converges; a residual beside W_kq* stays.",
    "C-ERR-17": "Theorem 3's second part needs one non-comparable type, and no token that outweighs it.",
    "C-ERR-18": "The experiment is a millionth of the length that the theorems ask for, and its rate is a "
    "transient.",
    "C-ERR-19": "Notation: an undefined p, missing transposes and factors, an equality that is none.",
    "C-ERR-20": "Which token of an unseen sentence is optimal is ambiguous as printed.",
    "D-ERR-1": "Sign descent with a constant step need not reach the max margin in linf.",
    "D-ERR-2": "Coordinate descent with a constant step need not reach the max margin in l1, nor even grow.",
    "D-ERR-3": "Adam tends to the max margin in linf only late, without epsilon, at rates that are not too "
    "large, and on full batches.",
    "D-ERR-4": "Momentum before normalisation changes the direction if the rate is above -log(beta)/margin.",
    "D-ERR-5": "Which tokens are selected depends on the optimiser, not only the direction for given tokens.",
    "D-ERR-6": "Rows outside strongly connected components may be bound too, if embeddings are dependent.",
    "D-ERR-7": "Normalised steps on data that do not separate grow like log t in l2, and go astray in linf.",
    "D-ERR-8": "Muon on the factors of W minimises its spectral norm, not the nuclear one.",
    "D-ERR-9": "A tiny constant added to the norm of the gradient stops normalised descent.",
}
