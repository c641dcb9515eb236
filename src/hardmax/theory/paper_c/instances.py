"""Where each statement of the next-token paper holds, and where it does not."""

from __future__ import annotations

from functools import partial

from hardmax.nexttoken.generators import named_sentences
from hardmax.theory.instances import Instance
from hardmax.theory.paper_c import examples

EX1, FIG2, CEX = (partial(named_sentences, name) for name in ("C-EX-1", "C-FIG-2", "C-CEX-P2"))
EXT1, EXT2, EXT3 = (partial(named_sentences, f"C-EXT-{k}") for k in (1, 2, 3))
UNREACHABLE, PAIRED = partial(named_sentences, "C-ERR-02"), partial(named_sentences, "C-ERR-06")
LONG, DERANGED = (partial(examples.drawn, name) for name in ("long", "derangement"))
TWO, TORN, FLOW, RARE = examples.two_tokens, examples.torn, examples.long_flow, examples.rare_sentence
OFF = {"start": examples.random_start(4)}


INSTANCES: list[Instance] = [
    Instance("C-COR-1", "two tokens, T = 50,000", "holds", TWO, {"steps": 50_000}),
    Instance("C-COR-1", "two tokens, below 3 Delta", "fails", TWO, {"steps": 50_000}, reading="paper"),
    Instance("C-COR-1", "C-FIG-2, T = 2e9", "holds", FIG2, {"steps": 2 * 10**9}),
    Instance("C-COR-1", "C-FIG-2, T = 900", "not applicable", FIG2),
    Instance("C-LEM-1", "Example 1", "holds", EX1),
    Instance("C-LEM-1", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-1", "a sentence with two next tokens", "not applicable", TORN),
    Instance("C-LEM-2", "Example 1", "holds", EX1),
    Instance("C-LEM-2", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-2", "a sentence with two next tokens", "not applicable", TORN),
    Instance("C-LEM-3", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-3", "Example 1 from a random start", "not applicable", EX1, OFF),
    Instance("C-LEM-4", "Example 1", "holds", EX1),
    Instance("C-LEM-4", "two deciding tokens in a sentence", "holds", EXT2),
    Instance("C-LEM-4", "Example 1, any W_ov", "not applicable", EX1, {"table": examples.random_start(4)}),
    Instance("C-LEM-5", "Example 1", "holds", EX1),
    Instance("C-LEM-5", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-5", "a token too often", "not applicable", EXT3),
    Instance("C-LEM-5", "constant sentences only", "not applicable", examples.constant),
    Instance("C-LEM-6", "two tokens", "holds", TWO),
    Instance("C-LEM-6", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-6", "a token too often", "not applicable", EXT3),
    Instance("C-LEM-7", "C-FIG-2", "holds", FIG2),
    Instance("C-LEM-7", "C-FIG-2, the printed alpha", "vacuous", FIG2, reading="paper"),
    Instance("C-LEM-7", "Example 1 by flow, the printed alpha", "holds", FLOW, reading="paper"),
    Instance("C-LEM-7", "C-FIG-2, 900 steps", "not applicable", FIG2, {"steps": 900}),
    Instance("C-PROP-1", "C-FIG-2", "holds", FIG2),
    Instance("C-PROP-1", "C-FIG-2, the printed bound", "vacuous", FIG2, reading="paper"),
    Instance("C-PROP-1", "C-FIG-2, a million steps", "holds", FIG2, {"steps": 10**6}, reading="paper"),
    Instance("C-PROP-1", "Example 1 from a random start", "not applicable", EX1, OFF),
    Instance("C-THM-1", "Example 1", "holds", EX1, {"rate": 0.025}),
    Instance("C-THM-1", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-1", "C-FIG-2, the printed bound", "vacuous", FIG2, reading="paper"),
    Instance("C-THM-1", "Example 1 by flow, the printed bound", "holds", FLOW, reading="paper"),
    Instance("C-THM-1", "a sentence too rare (formal)", "fails", RARE, reading="paper"),
    Instance("C-THM-1", "two deciding tokens in a sentence", "not applicable", EXT2),
    Instance("C-THM-2", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-2", "Example 1", "holds", EX1, {"rate": 0.025}),
    Instance("C-THM-2", "C-FIG-2, 900 steps, as printed", "vacuous", FIG2, {"steps": 900}, reading="paper"),
    Instance("C-THM-2", "Example 1 by flow, as printed", "holds", FLOW, reading="paper"),
    Instance("C-THM-2", "a next token out of reach", "not applicable", UNREACHABLE),
    Instance("C-THM-3", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-3", "Example 1", "holds", EX1, {"rate": 0.025}),
    Instance("C-THM-3", "C-FIG-2, D.2 as printed", "vacuous", FIG2, reading="paper"),
    Instance("C-THM-3", "Example 1 by flow, D.2 as printed", "holds", FLOW, reading="paper"),
    Instance(
        "C-THM-3", "Example 1, 100 steps, non-optimal tokens 3,000 times", "not applicable", EX1,
        {"rate": 0.025, "steps": 100, "repeats": 3000},
    ),
    Instance(
        "C-THM-3", "Example 1, however often they stand there", "fails", EX1,
        {"rate": 0.025, "steps": 100, "repeats": 3000}, reading="paper",
    ),
    Instance("C-THM-ASY", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-ASY", "longer sentences", "holds", LONG, {"steps": 100_000}),
    Instance("C-THM-ASY", "derangement", "holds", DERANGED),
    Instance("C-THM-ASY", "Example 1, just below eta_c", "holds", EX1, {"rate": 2.85, "steps": 3000}),
    Instance(
        "C-THM-ASY", "Example 1, just above eta_c", "not applicable", EX1, {"rate": 3.03, "steps": 3000}
    ),
    Instance("C-THM-ASY", "slack relations", "not applicable", CEX),
    Instance("C-THM-BLOCK", "slack relations", "holds", CEX),
    Instance("C-THM-BLOCK", "random graphs", "holds", examples.random_graphs),
    Instance("C-THM-BLOCK", "a confused token", "not applicable", EXT1),
    Instance("C-THM-P2", "Example 1", "holds", EX1),
    Instance("C-THM-P2", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-P2", "slack relations", "not applicable", CEX),
    Instance("C-THM-P2", "slack relations, as the paper proves it", "fails", CEX, reading="paper"),
    Instance("C-THM-S1", "Example 1", "holds", EX1),
    Instance("C-THM-S1", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-S1", "Example 1 from a random start", "holds", EX1, {**OFF, "steps": 6000}),
    Instance("C-THM-S1", "a sentence with two next tokens", "not applicable", TORN),
    Instance("C-THM-STRUCT", "Example 1", "holds", EX1),
    Instance("C-THM-STRUCT", "C-FIG-2", "holds", FIG2),
    Instance("C-THM-STRUCT", "a uniform permutation", "holds", examples.shuffled),
    Instance("C-THM-STRUCT", "n is not injective", "not applicable", CEX),
]  # fmt: skip
