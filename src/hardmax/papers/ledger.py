"""The replication ledger: one row for everything that the three papers print and number.

A row has what a paper prints, what we have, and the verdict that follows from its evidence: a stored check,
figure, claim, training or fact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from hardmax.papers.figures.claims import read_rows
from hardmax.papers.registry import ERRATA
from hardmax.papers.stored import epochs_of, read_results, read_runs

Status = Literal["holds", "changed", "fails", "stand-in"]


class Stored(NamedTuple):
    """The stored results: those of the commands, and the finished trainings by name."""

    results: Mapping[str, Any]
    runs: Mapping[str, Mapping[str, Any]]

    def run(self, name: str) -> Mapping[str, Any] | None:
        """Return the longest training of a name, apart from the number of epochs in it."""
        kind = _EPOCHS.sub("", name)
        same = [run for other, run in self.runs.items() if _EPOCHS.sub("", other) == kind]
        return max(same, key=lambda run: run["epochs_done"], default=None)

    def finding(self, status: Status, text: str, differs: str = "") -> EvidenceResult:
        """Return a finding in the results of the commands."""
        return EvidenceResult(status, text, differs, (self.results["version"], self.results["date"]))


_EPOCHS = re.compile(r"-\d+-epochs")


class EvidenceResult(NamedTuple):
    """The finding of a piece of evidence; ``origin`` is the version and the day."""

    status: Status
    text: str
    differs: str
    origin: tuple[str, str]


class Evidence:
    """A stored result that a row rests on; ``made_by`` is its command, with attributes in braces."""

    made_by: ClassVar[str]

    @property
    def command(self) -> str:
        """The command that makes the stored result."""
        return self.made_by.format(self)

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return its finding; None if it has not been run."""
        raise NotImplementedError


@dataclass(frozen=True)
class CheckEvidence(Evidence):
    """A statement, checked on the instances that it was made for.

    The paper's own wording decides: it must hold on an instance, and where it fails on another the
    statement holds with a change, which the errata state. ``corrected`` is for a slip that makes the wording
    fail everywhere and has an obvious reading, which the row states: that reading decides then.
    """

    id: str
    corrected: bool = False

    made_by = "hardmax verify {0.id}"

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return the number of verdicts as expected, and of those on the printed wording."""
        check = stored.results["checks"].get(self.id)
        if check is None:
            return None
        printed, good = check["printed"], check["as_expected"] == check["checks"]
        holds = printed.get("holds", 0) + printed.get("vacuous", 0) + printed.get("consistent", 0)
        broken = printed.get("fails", 0) + printed.get("refuted", 0)
        status: Status = "changed" if broken else "holds"
        if not good or (broken and not holds and not self.corrected):
            status = "fails"
        words = f"{self.id}: {check['as_expected']} of {check['checks']} verdicts as expected"
        if broken:
            words += f"; the printed wording holds on {holds} instances, fails on {broken}"
        return stored.finding(status, words, " ".join(f"{id}: {ERRATA[id]}" for id in check["errata"]))


@dataclass(frozen=True)
class ClaimEvidence(Evidence):
    """One claim of a figure.

    ``quick`` states the difference if the stored result is at quick scale. ``contradicts`` says that the
    claim is the opposite of what the paper prints.
    """

    id: str
    quick: str = ""
    contradicts: bool = False

    made_by = "hardmax reproduce {0.figure}"

    @property
    def figure(self) -> str:
        """The id of the figure."""
        return self.id.partition(".")[0]

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return the measured value."""
        figure = stored.results["figures"].get(self.figure, {"claims": {}})
        claim = figure["claims"].get(self.id)
        if claim is None:
            return None
        words = f"{self.id}: {claim['measured']}, expected {claim['expected']}"
        return self._judged(stored, figure, claim["holds"] != self.contradicts, claim["stand_in"], words)

    def _judged(
        self, stored: Stored, figure: Mapping[str, Any], holds: bool, stand_in: bool, words: str
    ) -> EvidenceResult:
        less = self.quick if figure["scale"] == "quick" else ""  # a size below the paper's is a change
        status: Status = "fails" if not holds else "stand-in" if stand_in else "changed" if less else "holds"
        return stored.finding(status, words, less)


@dataclass(frozen=True)
class FigureEvidence(ClaimEvidence):
    """A figure, with all its claims; ``options`` are those of its command."""

    options: str = ""

    made_by = "hardmax reproduce {0.id} {0.options}"

    @property
    def command(self) -> str:
        """The command that makes the stored result."""
        return super().command.rstrip()

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return how many claims hold, and on which data."""
        figure = stored.results["figures"].get(self.id)
        if figure is None:
            return None
        claims = figure["claims"].values()
        stand_in, verdicts = all(c["stand_in"] for c in claims), [c["holds"] for c in claims]
        words = f"{self.id}: {sum(verdicts)} of {len(claims)} claims at {figure['scale']} scale"
        words += ", all on stand-ins" if stand_in else ""
        return self._judged(stored, figure, all(verdicts), stand_in, words)


@dataclass(frozen=True)
class Fact(Evidence):
    """A number that the script of the stored results computes."""

    name: str

    made_by = "python benchmarks/ledger_results.py --data DIR"

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return the number."""
        fact = stored.results["facts"].get(self.name)
        return None if fact is None else stored.finding("holds" if fact["holds"] else "fails", fact["text"])


Test = Callable[[Mapping[str, Any]], bool]
FAR_BELOW = 1e-2  # the paper: 1e-5 against 1e-1


@dataclass(frozen=True)
class TrainedEvidence(Evidence):
    """Trainings of paper A by name; each that is stored must pass the test.

    A training of the same kind that has another number of epochs in its name counts too.
    """

    names: tuple[str, ...]
    test: Test

    @property
    def command(self) -> str:
        """The command that makes the stored result."""
        return f"python benchmarks/paper_a_runs.py DATA {' '.join(self.names)} --keep DIR"

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return loss, mass, r_v, r_p and sign accuracy of each stored seed."""
        runs = [run for run in map(stored.run, self.names) if run is not None]
        if not runs:
            return None
        words = "; ".join(
            f"seed {run['seed']}, {epochs_of(run)}: loss {run['loss']:.2g}, mass {run['mass']:.2f}, r_v "
            f"{run['r_v']:.2f}, r_p {run['r_p']:.2f}, sign accuracy {run['sign_accuracy']:.2f}, "
            f"{run['cpu_seconds'] / 60:.0f} CPU min"
            for run in runs
        )
        if len(runs) < len(self.names):
            words += f"; {len(self.names) - len(runs)} of {len(self.names)} seeds not run"
        return _trained(runs, all(map(self.test, runs)), words)


@dataclass(frozen=True)
class Contrast(Evidence):
    """The loss of a training of two layers, which must be far below that of one layer on the same data."""

    two: str
    one: str

    made_by = "python benchmarks/paper_a_runs.py DATA {0.two} {0.one} --keep DIR"

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return both losses; None unless both trainings are stored."""
        two, one = stored.run(self.two), stored.run(self.one)
        if two is None or one is None:
            return None
        words = (
            f"two layers {two['loss']:.2g} after {epochs_of(two)}, one layer {one['loss']:.2g} after "
            f"{epochs_of(one)}, seed {two['seed']}"
        )
        return _trained([one, two], two["loss"] <= FAR_BELOW * one["loss"], words)


SATURATED = 0.9  # mass of the attention on single tokens


def _trained(runs: list[Mapping[str, Any]], holds: bool, words: str) -> EvidenceResult:
    """Return the finding of trainings; an early stop or saturated attention counts as a change."""
    changes = [
        f"The training of {('one layer', 'two layers')[run['layers'] - 1]} from seed {run['seed']} was "
        f"stopped after {epochs_of(run)}."
        for run in runs
        if run["epochs_done"] < run["epochs"]
    ]
    changes += [
        f"From seed {run['seed']} attention saturates: one token has {run['mass']:.2f} of it on average."
        for run in runs
        if run["mass"] > SATURATED
    ]
    status: Status = "fails" if not holds else "changed" if changes else "holds"
    last = max(runs, key=lambda run: run["date"])
    return EvidenceResult(status, words, " ".join(changes), (last["version"], last["date"]))


def of_order(power: int) -> Test:
    """Return a test that a loss is of the order 10^power: its exponent, or the nearest power of ten."""
    return lambda run: 10.0 ** (power - 0.5) <= run["loss"] < 10.0 ** (power + 1)


def below(power: int) -> Test:
    """Return a test that a loss is of the order 10^power, or less."""
    return lambda run: run["loss"] < 10.0 ** (power + 1)


def shape(run: Mapping[str, Any]) -> bool:
    """Whether E v has the sign of x for 85 % of the tokens beyond 0.3, and E p rises with its modulus."""
    return run["sign_accuracy"] >= 0.85 and run["r_v"] > 0 and run["r_p"] > 0


Verdict = Literal[
    "reproduced", "reproduced with a stated change", "not reproduced", "stand-in only", "not run"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
CONSTRUCTED = "constructed instances, on which the statement must hold or must not"


@dataclass(frozen=True)
class LedgerItem:
    """The hand-written part of a row: the printed setting, ours, the data, differences, and the evidence.

    ``differs`` lists our changes; the errata of a statement are added to it.
    """

    paper: str
    item: str
    printed: str
    ours: str
    data: str
    evidence: tuple[Evidence, ...]
    differs: str = ""
    aliases: tuple[str, ...] = ()
    comments: str = ""  # what a reader must know that is not a change
    stand_in: tuple[str, ...] = ()  # ours and data where nothing but a stand-in is stored

    def row(self, stored: Stored) -> Row:
        """Return the row, with the verdict that the stored results give."""
        pieces = [piece.finding(stored) for piece in self.evidence]
        findings = [piece for piece in pieces if piece is not None]
        changes = [self.differs, *(finding.differs for finding in findings), self.comments]
        result = None
        if findings:
            version, date = max((finding.origin for finding in findings), key=lambda origin: origin[1])
            missing = len(pieces) - len(findings)
            words = [finding.text for finding in findings] + ([f"{missing} more not run"] if missing else [])
            result = StoredResult("; ".join(words), version, date)
        command = "; ".join(dict.fromkeys(piece.command for piece in self.evidence))
        differs = " ".join(dict.fromkeys(change for change in changes if change))
        verdict, ours, data = _verdict(findings, bool(self.differs)), self.ours, self.data
        if verdict == "stand-in only" and self.stand_in:
            ours, data = self.stand_in
        return Row(
            self.paper, self.item, self.printed, ours, data, differs, verdict, command, result, self.aliases
        )


def read_items(paper: str, table: str) -> tuple[LedgerItem, ...]:
    """Return the items of a table, whose rows are ``item | what is printed | evidence``.

    ``item = number`` adds the number in an older version of the paper. The evidence is one or more ids of
    statements, of figures (B-FIG-4) or of claims about them (B-FIG-9a.damped), or ``fact`` and a name. A row
    can continue with ``| field: text`` for the fields of an item (statements need neither ``ours`` nor
    ``data``) and of its evidence, and with ``| corrected`` or ``| contradicts``, as in `CheckEvidence` and
    `ClaimEvidence`.
    """
    items = []
    for name, printed, ids, *more in read_rows(table):
        item, *aliases = name.split(" = ")
        marks = dict(mark.partition(": ")[::2] for mark in more)
        items.append(
            LedgerItem(
                paper,
                item,
                printed,
                marks.get("ours", f"checked as {ids}"),
                marks.get("data", CONSTRUCTED),
                tuple(_evidence(id, marks) for id in ids.split(", ")),
                marks.get("differs", ""),
                tuple(aliases),
                marks.get("comments", ""),
                tuple(marks["stand-in"].split("; ")) if "stand-in" in marks else (),
            )
        )
    return tuple(items)


def _evidence(id: str, marks: dict[str, str]) -> Evidence:
    if id.startswith("fact "):
        return Fact(id.removeprefix("fact "))
    if not re.match("[A-Z]-FIG-", id):
        return CheckEvidence(id, "corrected" in marks)
    quick = marks.get("quick", "")
    if "." in id:
        return ClaimEvidence(id, quick, "contradicts" in marks)
    return FigureEvidence(id, quick, options=marks.get("options", ""))


def _verdict(findings: list[EvidenceResult], changed: bool) -> Verdict:
    statuses = {finding.status for finding in findings}
    if not findings:
        return "not run"
    if "fails" in statuses:
        return "not reproduced"
    if statuses == {"stand-in"}:
        return "stand-in only"
    return "reproduced with a stated change" if changed or "changed" in statuses else "reproduced"


@dataclass(frozen=True)
class StoredResult:
    """The stored result behind a verdict: its summary, version and day."""

    text: str
    version: str
    date: str


@dataclass(frozen=True)
class Row:
    """A line of the ledger."""

    paper: str
    item: str
    printed: str
    ours: str
    data: str
    differs: str
    verdict: Verdict
    command: str
    result: StoredResult | None
    aliases: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return an element of `rows` in the JSON."""
        return asdict(self)


PROTOCOL = "d = 2048, 500 epochs, AdamW at 1e-2 (a tenth from epochs 100 and 200), batch 128, decay 1e-8"
UNSTATED = (
    "Start, tokenizer details, padding and LayerNorm's gain are not printed; docs/research/reviews.md "
    "compares our choices with others."
)
SCALED = "Logits of every softmax are divided by sqrt(d), which the paper does not print."
SHORTER = "Two layers have fewer epochs than 500, with milestones in proportion: an epoch takes minutes."
FEW = "1,758 reviews, not 50,000."
IMDB = "IMDB, the paper's 50,000 reviews"
YELP = "Yelp, the 1,758 reviews at hand that pass the paper's filters; the paper has 50,000"
DATA = {"IMDB": (IMDB, ""), "Yelp": (YELP, FEW)}
NONE = f"{FEW} The contrast does not appear: one layer fits so few reviews as well as two do."
SURROGATE = ("the model on the surrogate, d = 64", "stand-in data: no review among them")
READINGS = {"printed": ("as printed", ""), "scaled": ("logits over sqrt(d)", SCALED)}


# The stored trainings by layers, source and reading: their name without the seed, and the number of seeds.
TRAININGS = {
    (1, "IMDB", "printed"): ("imdb-1-printed-100-epochs", 1),
    (1, "IMDB", "scaled"): ("imdb-1-scaled", 2),
    (1, "Yelp", "printed"): ("yelp-1-printed", 1),
    (1, "Yelp", "scaled"): ("yelp-1-scaled", 3),
    (2, "IMDB", "printed"): ("imdb-2-printed-d256", 1),
    (2, "IMDB", "scaled"): ("imdb-2-scaled-30-epochs", 1),
    (2, "Yelp", "printed"): ("yelp-2-printed", 1),
    (2, "Yelp", "scaled"): ("yelp-2-scaled", 3),
}

# Trainings that are shorter or smaller than printed: our setting, and what differs.
_SHORT = {
    (1, "IMDB", "printed"): ("100 epochs, milestones 20 and 40", "100 epochs, milestones in proportion."),
    (2, "IMDB", "printed"): ("d = 256, 28 epochs", "d = 256, 28 epochs."),
    (2, "IMDB", "scaled"): ("fewer epochs, with milestones in proportion", SHORTER),
}


def _training_item(
    item: str,
    printed: str,
    layers: int,
    source: str,
    reading: str,
    test: Test,
    ours: str = "",
    differs: str = "",
    figure: str = "",
) -> LedgerItem:
    """An item about trainings; ``figure`` is the figure that shows the printed model."""
    name, seeds = TRAININGS[layers, source, reading]
    usual, shorter = _SHORT.get((layers, source, reading), ("the same setting", ""))
    pieces: list[Evidence] = [TrainedEvidence(tuple(f"{name}-seed{k}" for k in range(seeds)), test)]
    if figure and reading == "printed":
        pieces.append(FigureEvidence(figure))
    words, change = READINGS[reading]
    data, few = DATA[source]
    changes = " ".join(text for text in (change, differs or shorter, few) if text)
    return LedgerItem(
        "A",
        f"{item}, {words}",
        f"{printed}, {PROTOCOL}",
        ours or usual,
        data,
        tuple(pieces),
        changes,
        comments=UNSTATED,
        stand_in=SURROGATE,
    )


_SHAPES = "E v rises with the posterior difference x through the origin, E p with |x|; "
_TWO_LAYERS = _SHAPES + "two layers on IMDB"
_FIGURE_1 = {
    "printed": (
        "the printed model at d = 256, 28 epochs (a tenth from 4 and 25), first 512 tokens",
        "d = 256 and 28 epochs: at d = 2048 and rate 1e-2 the printed model saturates, and 500 epochs take "
        "ten hours on two cores.",
    ),
    "scaled": ("d = 2048, rate 1e-2, fewer epochs with milestones in proportion, first 512 tokens", SHORTER),
}
_LOSS = "Appendix E, loss of"
_ORDER = "of the order of {} at convergence"
_CONTRASTS = (
    (
        "IMDB",
        "printed",
        "d = 256, 28 epochs, first 512 tokens, both layers alike",
        "imdb-1-printed-d256",
        "d = 256, 28 epochs.",
    ),
    ("IMDB", "scaled", "two layers for fewer epochs, one layer for 500", "imdb-1-scaled", SHORTER),
    ("Yelp", "printed", "the same setting", "yelp-1-printed", FEW),
    ("Yelp", "scaled", "the same setting", "yelp-1-scaled", NONE),
)

PAPER_A: tuple[LedgerItem, ...] = (
    *(
        _training_item("Figure 1", _TWO_LAYERS, 2, "IMDB", reading, shape, *texts, "A-FIG-1")
        for reading, texts in _FIGURE_1.items()
    ),
    *read_items(
        "A",
        """
    Figure 2 | positive and negative tokens part in E v, E p grows with importance; one layer on the K-level
        data, d = 2048, 196 epochs, AdamW at 1e-4, decay 1e-4, batch 128 | A-FIG-2, fact k-level sizes
        | ours: the same schedule
        | data: the paper's K-level data, with n = 4,096 where the paper gives no n
        | quick: The stored result is at quick scale: fewer sequences, smaller d.
        | differs: Levels have 4 + 2^k tokens (A-ERR-1: the printed sizes give 1,538 tokens, not 2,048).
        """,
    ),
    *(
        _training_item(item, f"{_SHAPES}{layers} on {source}", count, source, reading, shape, figure=figure)
        for item, layers, count, source, figure in (
            ("Figure 3, top row", "one layer", 1, "IMDB", "A-FIG-3"),
            ("Figure 3, bottom row", "one layer", 1, "Yelp", "A-FIG-3"),
            ("Figure 4", "two layers", 2, "Yelp", "A-FIG-4"),
        )
        for reading in READINGS
    ),
    *(
        _training_item(f"{_LOSS} {layers} on {source}", _ORDER.format(order), count, source, reading, test)
        for count, layers, order, test in (
            (1, "one layer", "1e-1", of_order(-1)),
            (2, "two layers", "1e-5", below(-5)),
        )
        for source in DATA
        for reading in READINGS
    ),
    *(
        LedgerItem(
            "A",
            f"Appendix E, two layers against one on {source}, {READINGS[reading][0]}",
            f"1e-5 against 1e-1: two layers end far below one, {PROTOCOL}",
            ours,
            DATA[source][0],
            (Contrast(f"{TRAININGS[2, source, reading][0]}-seed0", f"{one}-seed0"),),
            f"{READINGS[reading][1]} {differs}".strip(),
            comments=UNSTATED,
        )
        for source, reading, ours, one, differs in _CONTRASTS
    ),
    *read_items(
        "A",
        f"""
    Appendix E, IMDB | 50,000 reviews of 239 words on average | fact IMDB words | data: {IMDB}
        | ours: counted in the file as it is: runs of letters and digits, those of <br /> too
    Appendix E, Yelp | reviews of 1,000 to 1,500 characters with 1, 2, 4 or 5 stars, as many as IMDB has;
        tokens that occur less than 50 times are purged | fact Yelp reviews
        | ours: the same filters on the reviews at hand | data: {YELP} | differs: {FEW}
    Appendix E, sizes of the vocabulary | 4 + 2^(k-1) tokens of level k and sign, 964 irrelevant ones, 2,048
        in all | fact k-level sizes | ours: 4 + 2^k tokens, which gives 2,048
        | data: the paper's K-level data | differs: A-ERR-1: the printed sizes give 1,538 tokens.
    Equations (34) and (35) | probabilities of tokens given the label, and the posteriors that follow
        | fact probabilities of (34) | ours: the third case with delta-tilde | data: the paper's K-level data
        | differs: A-ERR-2: the third case is printed with another letter, and does not add up.
    Appendix E, equal frequencies | all tokens of the synthetic data appear equally often
        | fact equal frequencies | ours: the ratio of the frequencies | data: the paper's K-level data
        | comments: A-ERR-3: irrelevant tokens are 21 times as frequent; what is concluded holds all the same.
    Definition 1 | positive, negative, irrelevant, completely positive tokens | A-LEM-14, A-THM-5
    Lemma 2 = 4.1 | one step learns alpha, errors at most 11 eta0 d^(-1/4) | A-LEM-2
    Lemma 3 = 4.2 | the max-margin solution of a pattern exists and is unique | A-LEM-3
    Assumption 4 | each sequence has one completely signed token, once | A-LEM-14
    Theorem 5 = 4.3 | p diverges; a limit of its direction selects important tokens and is max-margin for its
        selection | A-THM-5 | comments: A-THM-5S needs neither Lemma 6 nor Lemma 19 nor the limit's existence.
    Lemma 6 | a direction that selects every token is not a limit | A-LEM-6
    Lemma 7 = A.1 | gradients in closed form | A-LEM-7
    Lemma 8 = A.2 | the gradient along a direction, by pairs | A-LEM-8
    Lemma 9 = A.3 | what makes the direction converge | A-LEM-9
    Lemma 10 = A.4 | bounds on attention | A-LEM-10
    Lemma 11 = B.1 | the first step keeps norms bounded, d at least 256 | A-LEM-11
    Lemma 12 = B.2 | the loss after the first step, d at least (88 eta0^2 + 111 eta0 + 2)^8 | A-LEM-12
    Lemma 13 = C.1 | p grows without bound | A-LEM-13
    Lemma 14 = C.2 | important tokens are selected, eta0 at least 4 n^2 T^2 | A-LEM-14
    Definition 15 = C.3 | the second selection | A-LEM-17
    Definition 16 = C.4 | locally optimal directions | A-DEF-16
    Lemma 17 = C.5 | the dominant pairs decide | A-LEM-17
    Lemma 18 = C.6 | a limit is its own max-margin direction | A-LEM-18
    Lemma 19 = 4.5 | important tokens only, where every other pattern costs more | A-LEM-19 | differs: Tested
        for fixed embeddings: at infinite width its hypothesis fails where p_hat.v = 0.
    Remark on Lemma 19 (D.5) | its hypothesis holds for equal frequencies | A-ERR-5
    Lemma 20 | some constraint is tight | A-LEM-20
    Lemma 21 | the important-only solution has norm at most 4n | A-LEM-21
    Event (14) | overlaps and norms of the start, with probability 1 - delta | A-EVT-14 | differs: d must be
        large enough for the norms, which is not stated: at d = 2 the bound fails.
    Section 3 | what is proved for the flow extends to descent with small steps | A-SEC-3
        """,
    ),
)


DRAWN = "drawn as the paper says: n = 4, T = 6, tokens and v uniform on the sphere, labels uniform"
QUICK = "quick: The stored result has 200 trials per d, not 1,000."
VISION = """differs: Dimension 96 (printed 768), 2 layers (12) and 5 epochs (400): 58 CPU minutes. The paper
        does not print its optimizer, batch, augmentation and which image it shows.
        | stand-in: a layer of four heads in numpy; stand-in data: 1,500 surrogate images of 64 patches, not
        CIFAR-10 | options: --scale day --data DIR"""
NOTEBOOK = "the printed tokens; scores and starts from the public notebooks"
COMPLETED = "the printed tokens, completed from the public notebook"

PAPER_B: tuple[LedgerItem, ...] = read_items(
    "B",
    f"""
    Figure 1(a) | one input, equal other scores: every start goes to the globally best direction; normalized
        descent, step 0.1, 1,000 steps, logistic loss | B-FIG-1a | ours: the same; six starts
        | data: {NOTEBOOK}
    Figure 1(b) | one input, other scores: starts go to the globally or to a locally best direction | B-FIG-1b
        | ours: the same; six starts | data: {NOTEBOOK}
    Figure 1(c) | several inputs: the line that separates the best tokens | B-FIG-1c
        | ours: the same; six starts | data: the authors' own draw, reconstructed from the public notebook
    Figure 2 | a cone around a locally optimal direction, drawn as a sketch | B-FIG-2
        | ours: the cone with the explicit angle and radius of Lemma 7, and descent from inside
        | data: our own two inputs (B-FIG-8)
        | differs: The printed picture is a sketch without numbers; ours is to scale, on data of our own.
    Figure 3(a) | p and v trained together go to both max-margin directions; n = 3, T = d = 2 | B-FIG-3a
        | ours: the same | data: {COMPLETED}
    Figure 3(b) | one input is not a support vector: p goes to the relaxed direction | B-FIG-3b
        | ours: the same | data: {COMPLETED}
    Figure 3(c) | probabilities of the best tokens and of the labels rise to 1 | B-FIG-3c | ours: the same
        | data: as in (a)
        | comments: B-ERR-06: the printed formula has the largest probability, the notebook the best token's.
    Figure 4 | normalized descent saturates sooner than constant steps, and |p| grows faster | B-FIG-4
        | ours: the same, steps 0.1 and 1, 200 steps | data: the data of figure 1(c)
    Figure 5 | the way to the limit bends by loss and score | B-FIG-5
        | ours: the same, correlation and logistic loss, scores 1 to 100
        | data: the printed tokens; other scores from the public notebook
        | comments: B-ERR-19: in the first steps the logistic loss bends the other way for scores of 2 to 5.
    Figure 6 | ViT-base on CIFAR-10, 400 epochs, rate 3e-3: the map of [CLS] becomes sparse | B-FIG-6
        | ours: a smaller transformer on all 50,000 images, 256 patches, 12 heads, Adam at 3e-3, batch 100
        | data: CIFAR-10 | {VISION}
    Figure 7 | the same training: nnz/T falls while the norm of W grows | B-FIG-7
        | ours: a smaller transformer on all 50,000 images, 256 patches, 12 heads, Adam at 3e-3, batch 100
        | data: CIFAR-10 | {VISION}
    Figure 8 | n = T = d = 2: descent goes to the globally or to a locally best direction | B-FIG-8
        | ours: the same on data of this kind | data: our own two inputs
        | differs: The paper gives no coordinates; ours have its properties.
    Figure 9(a) | 1,000 trials at each of six d: shares of unsaturated, locally best and globally best ends
        | B-FIG-9a | ours: the same protocol, exact arithmetic | data: {DRAWN} | {QUICK}
    Figure 9(b) | distribution of the least score gap to a neighbor
        | B-FIG-9b | ours: the same protocol, exact arithmetic | data: {DRAWN} | {QUICK}
    Figure 10 | its cumulative distribution has a sharp transition at zero
        | B-FIG-10 | ours: the same protocol, exact arithmetic | data: {DRAWN} | {QUICK}
    Appendix E, correlation 0.997 | average correlation of p and its max-margin direction: 0.997
        | B-FIG-9a.damped | data: {DRAWN} | {QUICK}
        | ours: with the small constant of the notebooks added to the gradient's norm, in float64
        | differs: B-ERR-11: the number measures that constant; exact normalized descent gives 0.9999 and
        more.
    Appendix E, below 1 % | a neighbor scores higher in less than 1 % of the problems
        | B-FIG-9b.negative, B-FIG-10.below-zero | ours: the same count | data: {DRAWN} | {QUICK}
    Appendix E, above 0.99 | there the correlation with the max-margin solution is above 0.99 on average
        | B-FIG-9b.correlation-negative | ours: the same mean | data: {DRAWN} | {QUICK}
    Appendix E, close to zero | where a neighbor scores higher, its score is typically only slightly higher
        | B-FIG-10.not-close-to-zero | contradicts | data: {DRAWN} | {QUICK}
        | ours: gaps above -0.01 and of -0.05 or less, among the negative ones of the control stream
        | comments: B-ERR-11: few of the negative gaps are close to zero.
    Appendix E, saturated means unbounded | where softmax saturates, |p| goes to infinity
        | B-FIG-10.bounded | contradicts | data: {DRAWN} | {QUICK}
        | ours: |p| after 10,000 and 100,000 steps in the trials with a negative gap, d = 2 and 5
        | comments: B-ERR-11: saturated at 1 - 1e-5 does not imply that |p| diverges.
    Appendix E, ATT-SVM' | where a neighbor scores higher, ATT-SVM' is the better proxy | B-APP-E
        | data: trials of figure 9 with a negative gap
    Assumption A | smooth losses with a bounded, Lipschitz derivative | B-THM-L6
    Assumption B | one best token per input, equal other scores | B-ASM-B
    Assumption C | attention that is lost costs label margin | B-ASM-C
    Assumption D | less lost attention means less risk | B-ASM-D
    Definition 1 | scores, best tokens, the globally best direction | B-THM-L4
    Definition 2 | neighbors and locally best directions | B-THM-3, B-THM-4
    Definition 3 | directional neighbors and margins | B-THM-L9
    Lemma 1 | training W is training p | B-THM-L1
    Theorem 1 | the regularization path tends to the globally best direction | B-THM-1
    Lemma 2 | that direction exists for equal labels | B-THM-L2
    Theorem 2 | descent diverges; with one input its direction converges | B-THM-2
    Lemma 3 | the key covariance to first order | B-THM-L3
    Theorem 3 | local convergence from a cone | B-THM-3
    Lemma 4 | the globally best direction descends everywhere | B-THM-L4
    Theorem 4 | directions that are not locally best attract no local path | B-THM-4
    Lemma 5 | far out no direction beats the max-margin one, n = 1 | B-THM-L5
    Theorem 5 | the joint path where every input supports the label margin | B-THM-5
    Lemma 6 | the risk is smooth and descent lowers it | B-THM-L6
    Theorem 6 | the joint path tends to v_mm and the relaxed direction | B-THM-6 | differs: B-ERR-02: r must
        grow at least rho* times as fast as R, which the paper leaves open.
    Lemma 7 | gradients in the cone of a locally best direction | B-THM-L7
    Theorem 7 | Theorem 4 in the appendix, with general position defined | B-THM-4 | comments: B-ERR-10:
        general position is read for a fixed selection.
    Lemma 8 | the larger margin wins far out | B-THM-L8
    Theorem 8 | the path with several best tokens | B-THM-8, B-THM-8N
    Lemma 9 | a direction whose neighbors score higher is beaten by finite points | B-THM-L9
    Lemma 10 | at most d directional neighbors | B-THM-L10
    Lemma 11 | Lemma 2 in the appendix: all labels 1, v in the range of W' | B-THM-L2
    Lemma 12 | once attention tends to the selected tokens, no row of them is below zero along the joint path
        | fact Lemma 12 | ours: the least row along the joint path with r = 1.5 R
        | data: the data of figure 3(b)
    Lemma 13 | the joint path within the quadrant of the selection tends to v_mm and the relaxed direction
        | fact Lemma 13 | data: the data of figure 3(b)
        | ours: where the free path lies in the quadrant it is the restricted one: its angles
        | differs: B-ERR-02: r = 1.5 R, above the coupling rho* = 1.
    Lemma 14 | excess risk and lost attention, up to constants | B-THM-L14
    Bound (73) | attention lost at radius R, between two exponentials | B-EQ-73 | differs: A margin below zero
        counts as zero: lost attention cannot exceed one. | corrected
    Bound (75) | lost attention costs risk, whatever v | B-EQ-75
    Bound (79) | attention lost by the tightened relaxed direction | B-EQ-79
    Bound (84) | attention lost by sets at radius R | B-EQ-84 | differs: A margin below zero counts as zero:
        lost attention cannot exceed one.
    Text on figure 1(a) | the correlation with the limit rises at every step | B-THM-2M
    Appendix E, limits of descent | wherever softmax saturates, descent tends to a locally best direction
        | B-ERR-21
    """,
)


GENERATED = "data: a realizable dataset from our generator, 20 tokens; the paper says only that it is random"
SETTING = "|V| = d = 20, 900 steps, eta0 = 0.2/sqrt(d), eta = 0.05/sqrt(d)"
FIRST = f"""ours: the same setting | {GENERATED}
        | comments: Stage 1 depends on the collocation only through its size."""
SECOND = f"""ours: the same setting | {GENERATED}
        | differs: The paper's dataset is not given (C-ERR-18); ours has chains of a random permutation."""

PAPER_C: tuple[LedgerItem, ...] = read_items(
    "C",
    f"""
    Figure 1 | a sentence, its deciding token and the collocation | C-FIG-1 | ours: the same, from Example 1
        | data: the paper's Example 1
    Figure 2, plot 1 | the loss of stage 1 falls to its least value; {SETTING} | C-FIG-2a | {FIRST}
    Figure 2, plot 2 | the direction of W_ov converges; {SETTING} | C-FIG-2b | {FIRST}
    Figure 2, plot 3 | the norm of W_ov grows linearly; {SETTING} | C-FIG-2c | {FIRST}
    Figure 2, plot 4 | the loss of stage 2 falls; {SETTING} | C-FIG-2d | {SECOND}
    Figure 2, plot 5 | the direction of W_kq converges; {SETTING} | C-FIG-2e | {SECOND}
    Figure 2, plot 6 | the norm of W_kq grows linearly; {SETTING} | C-FIG-2f | {SECOND}
    Section 7, rate of stage 2 | the experiment confirms log^2 t / t of Theorem 1 | C-FIG-RATE
        | ours: trained to 1e6 steps | {GENERATED}
        | differs: C-ERR-18: 900 steps show a transient; the rate is 1/t^2, faster than the bound.
    Constants of the bounds | 384 (Corollary 1), 54 (Theorem 1), 1696 in (13), 5 and 12 (Proposition 1)
        | C-FIG-BOUNDS | ours: printed bounds against the truth | {GENERATED}
        | differs: C-ERR-11: 1696 must be 1728; C-ERR-07: the proof gives 12, not 5.
    Assumption 1 | a realizable dataset: next tokens by collocation | C-THM-STRUCT
    Assumption 2 | orthonormal embeddings | C-LEM-4
    Assumption 3 | no other token of a sentence is more frequent than those that decide | C-LEM-5,
        C-THM-STRUCT
    Definition 1 | the order of tokens under a query, four types of tokens | C-THM-STRUCT, C-LEM-5
    Example 1 | sentences of four words, their collocation and orders | C-FIG-1 | ours: the same
        | data: the paper's Example 1
    Example 2 | a sentence that was not seen is continued by its optimal token | C-THM-3
    Algorithm 1 | two stages of normalized descent from zero | C-THM-S1, C-LEM-5
    Proposition 1 | stage 1 converges in direction, 1 - cos at most of order log t / t | C-PROP-1
    Proposition 2 | the columns of W_kq* | C-THM-P2
    Proposition 3 | Proposition 1 in the appendix, with the constant 12 | C-PROP-1
    Proposition 4 | Proposition 2 in the appendix, for several optimal tokens | C-THM-P2
    Corollary 1 | margins of W_ov after stage 1 lie between Delta and 3 Delta | C-COR-1
    Theorem 1 | W_kq converges in direction, 1 - cos of order log^2 t / t | C-THM-1
    Theorem 2 | attention and loss converge linearly, (4) | C-THM-2
    Theorem 3 | unseen tokens lie between optimal and other ones | C-THM-3
    Lemma 1 | the norm of W_ov grows linearly | C-LEM-1
    Lemma 2 | W_ov gains no more than W_ov* from the gradient | C-LEM-2
    Lemma 3 | wrong tokens are equally wrong | C-LEM-3
    Lemma 4 | the gradient of stage 2, projected | C-LEM-4
    Lemma 5 | attention on the right token only grows | C-LEM-5
    Lemma 6 | the norm of W_kq grows linearly | C-LEM-6
    Lemma 7 | W_kq gains no more than W_kq* from the gradient | C-LEM-7
    """,
)


ITEMS: tuple[LedgerItem, ...] = (*PAPER_A, *PAPER_B, *PAPER_C)


def rows(stored: Stored | None = None) -> tuple[Row, ...]:
    """Return all rows, from the stored results that the package carries or from others.

    >>>     >>> {row.paper for row in rows()} == {"A", "B", "C"}
    True
    """
    results = Stored(read_results(), read_runs()) if stored is None else stored
    return tuple(item.row(results) for item in ITEMS)
