"""C-FIG-1: Example 1, from sentences to next tokens, with the collocation and W_kq* behind them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from hardmax._lib.style import BLUE, GRAY, INK, RED
from hardmax.nexttoken import Analysis, Samples, Training, analyze, named_sentences
from hardmax.nexttoken.generators import structure
from hardmax.nexttoken.predict import regenerate
from hardmax.nexttoken.training import train
from hardmax.papers.figures.figure import Axes, Canvas, Findings, Setting, recipe
from hardmax.papers.figures.tables import Table, Tables, part, stacked
from hardmax.problem.readouts import star_norm

FIRST_RATE, RATE = 0.1, 0.025  # of Example 2
SHORT = 20  # steps of stage 1 after which the probabilities still show the attention
UNSEEN = ("S P", "O S P", "V P", "S V P")
DECIDES, OTHER = (RED, 1.6, "#FBEDE3"), (GRAY, 0.5, "white")  # edge, its width and face of a box
BOX = 0.84  # side of a token's box, where tokens are 1 apart


def draw_1(tables: Tables, canvas: Canvas) -> None:
    """Draw sentences with the deciding token boxed, the collocation, and the columns of W_kq*."""
    left, middle, right = canvas.subplots(1, 3, width_ratios=(4.1, 1.3, 1.4))
    _draw_sentences(left, tables)
    _draw_collocation(middle, tables["collocation"])
    _draw_star(right, tables["star"])
    for panel in (left, middle, right):
        panel.set_anchor("N")


def _draw_sentences(panel: Axes, tables: Tables) -> None:
    following = tables["next"]
    x = 0.0
    for raw in dict.fromkeys(following["raw"].tolist()):
        samples = part(following, "raw", raw)
        width = int(samples["length"].max()) + 2.0
        panel.text(x - BOX / 2, 1.0, f"from {raw}", fontsize=7, color="#666666", va="center")
        for row, (sample, word) in enumerate(zip(samples["sample"], samples["token"], strict=True)):
            y = -1.55 * row
            one = part(tables["tokens"], "sample", sample)
            for place, token, decides in zip(one["place"], one["token"], one["decides"], strict=True):
                _draw_token(panel, x + place, y, token, decides)
            end = x + len(one["place"])
            arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": INK, "linewidth": 0.8, "mutation_scale": 7}
            arrow |= {"shrinkA": 0, "shrinkB": 0}
            panel.annotate("", (end + 0.55, y), (end - 0.45, y), arrowprops=arrow)
            panel.text(end + 1.0, y, word, ha="center", va="center_baseline")
        x += width + 0.75
    panel.set(xlim=(-0.6, x - 0.9), ylim=(-3.75, 1.4), aspect="equal")
    panel.set_axis_off()
    panel.set_title("(a) sentence to next token")


def _draw_token(panel: Axes, x: float, y: float, word: str, decides: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    names = ("edgecolor", "linewidth", "facecolor")
    look: dict[str, Any] = dict(zip(names, DECIDES if decides else OTHER, strict=True))
    corner = (x - BOX / 2, y - BOX / 2)
    panel.add_patch(FancyBboxPatch(corner, BOX, BOX, boxstyle="round,pad=0,rounding_size=0.12", **look))
    panel.text(x, y, word, ha="center", va="center_baseline")


def _draw_collocation(panel: Axes, table: Table) -> None:
    """Draw the tokens on a circle, clockwise from the left top, with an arrow from each to its next."""
    words = table["token"].tolist()
    turn = np.radians(135 - 360 * np.arange(len(words)) / len(words))
    place = dict(zip(words, np.column_stack([np.cos(turn), np.sin(turn)]), strict=True))
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": BLUE, "linewidth": 1.0, "mutation_scale": 8}
    arrow |= {"shrinkA": 9, "shrinkB": 9, "connectionstyle": "arc3,rad=-0.25"}
    ring = {"boxstyle": "circle,pad=0.3", "facecolor": "white", "edgecolor": INK, "linewidth": 0.6}
    for word, following in zip(words, table["next"].tolist(), strict=True):
        panel.annotate("", place[following], place[word], arrowprops=arrow)
        x, y = place[word]
        panel.text(x, y, word, ha="center", va="center_baseline", bbox=ring)
    panel.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal")
    panel.set_axis_off()
    panel.set_title("(b) collocation $n$")


def _draw_star(panel: Axes, table: Table) -> None:
    """Draw W_kq* as a table of fractions: tokens down, queries across."""
    from matplotlib.colors import LinearSegmentedColormap

    words = list(dict.fromkeys(table["token"].tolist()))
    at = {word: k for k, word in enumerate(words)}
    grid = np.zeros((len(words), len(words)))
    for token, query, value in zip(table["token"], table["query"], table["value"], strict=True):
        grid[at[str(token)], at[str(query)]] = value
    shades = LinearSegmentedColormap.from_list("", [BLUE, "white", RED])
    panel.imshow(grid, cmap=shades, vmin=-1.3, vmax=1.3)
    for token, query, text in zip(table["token"], table["query"], table["fraction"], strict=True):
        number = str(text).replace("-", "−")
        panel.text(at[str(query)], at[str(token)], number, ha="center", va="center_baseline", fontsize=7)
    panel.set_xticks(range(len(words)), words)
    panel.set_yticks(range(len(words)), words)
    panel.set(xlabel="query $q$", ylabel="token $x$")
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    panel.set_title(r"(c) $W_{kq}^*[x, q]$")


@recipe(
    "C-FIG-1",
    "Example 1: sentences, the token that decides in each, and the collocation",
    draw=draw_1,
    size=(7.0, 1.95),
    errata=("C-ERR-13", "C-ERR-17", "C-ERR-20"),
    claims="""
    samples | distinct samples | 9
    realizable | all assumptions hold (Assumption 3 by its formula) | no violation
    collocation | next tokens of S, V, O, P | V, O, P, S | S to V to O to P to S
    orders | orders under S, V, O, P | S > P; V > S; O > S, O > V; O > P
    lags | steps back along n to the optimal token, queries S, V, O, P | 0, 0, 0, 1
    star | columns of W_kq* under S, V, O, P
        | 1/2 0 0 -1/2; -1/2 1/2 0 0; -1/3 -1/3 2/3 0; 0 0 1/2 -1/2
    star-norm | |W_kq*|^2 | 13/6
    ov-norm | |W_ov*|^2 | 3.0 ± 1e-12
    regenerated | samples whose next token follows from collocation and orders alone | 9
    trained | samples that the trained model predicts right | 9
    attention | least attention on the boxed token after 900 steps | ≥ 0.99
    unseen | next tokens of the unseen S P, O S P, V P | V, P, O | n(S), n(O), n(V)
    unseen-attention | attention on S, O, V in them | 0.99945 ± 5e-6
    unseen-early | their probability with 20 steps of stage 1 | 0.51381 ± 5e-6
    unseen-late | what all other tokens have with 900 steps of stage 1 | ≤ 9e-23
    tie | the unseen S V P, with two tokens never seen under P | tie
    tie-shares | probabilities of V and O there, 20 steps of stage 1 | 0.32019 ± 5e-6
    """,
)
def fig_1(setting: Setting) -> Findings:
    """Analyze and train on the nine samples of Example 1, and predict other sentences."""
    analysis = analyze(named_sentences("C-EX-1"))
    samples = Samples.from_trie(analysis.trie)
    run = train(samples, first_rate=FIRST_RATE, rate=RATE)
    tables = {
        **_sentence_tables(analysis, samples),
        "collocation": {"token": np.array(samples.vocabulary), "next": np.array(analysis.words(analysis.n))},
        "star": _star_table(run),
    }
    notes = (
        "S subject, V verb, O object, P punctuation. Boxed is the token x with n(x) = next token; under the "
        "query, the last token of the sentence, it ranks above all others of the sentence.",
        "S V O has one optimal and two non-optimal positions, against the wording of Assumption 3 but not "
        "against its formula (C-ERR-13).",
        "Unseen sentences are those of Example 2. In O S P both O and S are maximal, and O, the optimal one, "
        "decides (C-ERR-20). In S V P two tokens were never compared under P, and the model cannot choose: "
        "Theorem 3 must be read for one such token (C-ERR-17).",
    )
    return Findings(tables, _about_data(analysis, samples, run) | _about_model(samples, run), notes)


def _sentence_tables(analysis: Analysis, samples: Samples) -> dict[str, Table]:
    raw = ["".join(analysis.trie.sentences.words(i)) for i in range(analysis.trie.sentences.n)]
    tokens, following = [], []
    for i in range(samples.n):
        words = samples.sentence(i).split()
        n = dict(zip(samples.vocabulary, analysis.words(analysis.n), strict=True))
        target = samples.vocabulary[samples.target[i]]
        decides = [n[word] == target for word in words]
        tokens.append({"sample": i, "place": np.arange(len(words)), "token": words, "decides": decides})
        source = next(text for text in raw if text.startswith("".join(words) + target))
        following.append({"sample": i, "raw": source, "length": len(words), "token": target})
    return {"tokens": stacked(tokens), "next": stacked(following)}


def _star_table(run: Training) -> Table:
    words, pairs, exact = run.samples.vocabulary, run.pairs, run.star.exact
    assert exact is not None
    value = {pair: exact[p] for pair, p in pairs.position.items()}
    rows = []
    for (q, query), (x, token) in product(enumerate(words), repeat=2):
        w = value.get((x, q), Fraction(0))
        rows.append({"token": token, "query": query, "value": float(w), "fraction": str(w)})
    return stacked(rows)


def _about_data(analysis: Analysis, samples: Samples, run: Training) -> dict[str, Any]:
    words = samples.vocabulary
    orders = {
        words[q]: ", ".join(f"{words[o]} > {words[x]}" for o, x in edges)
        for q, edges in analysis.orders.edges().items()
    }
    columns = _star_table(run)
    stars = [" ".join(part(columns, "query", word)["fraction"].tolist()) for word in words]
    wanted = ["1/2 0 0 -1/2", "-1/2 1/2 0 0", "-1/3 -1/3 2/3 0", "0 0 1/2 -1/2"]
    lags = structure(analysis).lag.tolist()
    sentences = [[words.index(word) for word in samples.sentence(i).split()] for i in range(samples.n)]
    regular = [regenerate(analysis.n, analysis.orders, sentence) for sentence in sentences]
    followed = sum(rule.next == y for rule, y in zip(regular, samples.target.tolist(), strict=True))
    return {
        "samples": (samples.n == 9, samples.n),
        "realizable": (analysis.realizable, [v.kind for v in analysis.violations] or "no violation"),
        "collocation": (analysis.words(analysis.n) == list("VOPS"), analysis.words(analysis.n)),
        "orders": (
            orders == {"S": "S > P", "V": "V > S", "O": "O > S, O > V", "P": "O > P"},
            "; ".join(orders.values()),
        ),
        "lags": (lags == [0, 0, 0, 1], lags),
        "star": (stars == wanted, "; ".join(stars)),
        "star-norm": (run.star.norm_squared == Fraction(13, 6), str(run.star.norm_squared)),
        "ov-norm": star_norm(analysis.n) ** 2,
        "regenerated": (followed == 9, followed),
    }


def _about_model(samples: Samples, run: Training) -> dict[str, Any]:
    """Test the trained model on the samples, and on the unseen sentences of Example 2."""
    right = [
        run.predict(samples.sentence(i)).next(1)[0][0] == samples.vocabulary[samples.target[i]]
        for i in range(samples.n)
    ]
    early = train(samples, stage1=SHORT, first_rate=FIRST_RATE, rate=RATE)
    predictions = [early.predict(sentence) for sentence in UNSEEN]
    likely = [prediction.next(2) for prediction in predictions]
    following = [tokens[0][0] for tokens in likely[:3]]
    rule = predictions[3].rule
    late = [run.predict(sentence).next()[1:] for sentence in UNSEEN[:3]]
    return {
        "trained": (sum(right) == 9, sum(right)),
        "attention": run.masses,
        "unseen": (following == ["V", "P", "O"], following),
        "unseen-attention": [prediction.attended[0].weight for prediction in predictions[:3]],
        "unseen-early": [tokens[0][1] for tokens in likely[:3]],
        "unseen-late": [sum(probability for _, probability in others) for others in late],
        "tie": (rule == "tie", rule),
        "tie-shares": [probability for _, probability in likely[3]],
    }
