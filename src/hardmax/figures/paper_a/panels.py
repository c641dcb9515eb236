"""Drawing of figures 1 to 4: E p and E v of every token, and r_v, r_p and the loss over the epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hardmax.figures.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE
from hardmax.figures.tables import Table, Tables, part

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

KINDS = {0: (GRAY, "o"), 1: (BLUE, "^"), -1: (ORANGE, "v")}  # by sign: colour and marker
LABELS = {"E_p": r"$E_s \cdot p$", "E_v": r"$E_s \cdot v$"}
DASHES = (0, (2.5, 1.5))
FAR = 1.06  # the common range of x is -FAR to FAR
LOOKS = {500: (9.0, 0.6), 3000: (6.0, 0.4), np.inf: (2.5, 0.35)}  # size and opacity for up to so many tokens


def draw_training(
    canvas: FigureBase,
    tables: Tables,
    case: str,
    names: Mapping[int, str],
    *,
    letters: str = "abc",
    control: str | None = None,
) -> None:
    """A row of panels: E p, E v, and over the epochs r_v, r_p and the loss, with a control's in dashes.

    ``names`` are what tokens of the signs +1, -1 and 0 are called.
    """
    parts = canvas.add_gridspec(2, 3, height_ratios=(1.6, 1))
    attention, value = (canvas.add_subplot(parts[:, column]) for column in (0, 1))
    upper = canvas.add_subplot(parts[0, 2])
    lower = canvas.add_subplot(parts[1, 2], sharex=upper)
    mean = float(part(tables["cases"], "case", case)["mean_label"][0])
    tokens, line = (part(tables[name], "case", case) for name in ("tokens", "lines"))
    _draw_tokens(attention, tokens, line, "E_p", mean)
    _draw_tokens(value, tokens, line, "E_v", mean)
    _name_kinds(value, tokens, names)
    _draw_course(upper, lower, tables, [case] if control is None else [case, control])
    titles = ("attention", "value", "over training")
    for panel, letter, title in zip((attention, value, upper), letters, titles, strict=True):
        panel.set_title(f"({letter}) {title}")


def _draw_tokens(panel: Axes, tokens: Table, line: Table, column: str, mean: float) -> None:
    panel.axhline(0.0, color=GRAY, linewidth=0.5, zorder=0)
    panel.axvline(mean, color=GRAY, linewidth=0.5, zorder=0)
    size, alpha = next(look for most, look in LOOKS.items() if len(tokens["sign"]) <= most)
    for sign, (color, marker) in KINDS.items():
        rows = part(tokens, "sign", sign)
        # thousands of markers would make an SVG of megabytes: they are drawn as an image, the rest as lines
        panel.scatter(
            rows["posterior_difference"], rows[column], s=size, c=color, marker=marker, alpha=alpha,
            linewidths=0, rasterized=True, zorder=1 + abs(sign),
        )  # fmt: skip
    joined = "-" if (line["sign"] == 0).all() else ""
    panel.plot(
        line["posterior_difference"], line[column], color=INK, linestyle=joined, linewidth=0.8, marker="o",
        markersize=2.8, markerfacecolor="white", markeredgewidth=0.8, zorder=4,
    )  # fmt: skip
    panel.set(xlim=(-FAR, FAR), xticks=(-1, -0.5, 0, 0.5, 1), xlabel="posterior difference $x$")
    panel.set_xticklabels(("−1", "−½", "0", "½", "1"))
    panel.set_ylabel(LABELS[column])


def _name_kinds(panel: Axes, tokens: Table, names: Mapping[int, str]) -> None:
    for sign, name in names.items():
        if (tokens["sign"] == sign).any():
            color, marker = KINDS[sign]
            panel.scatter([], [], s=12, c=color, marker=marker, linewidths=0, label=name)
    # a white ground, for the legend may lie over tokens
    panel.legend(loc="upper left", handletextpad=0.1, borderaxespad=0.1, borderpad=0.1, frameon=True,
                 facecolor="white", edgecolor="none", framealpha=0.8)  # fmt: skip


def _draw_course(upper: Axes, lower: Axes, tables: Tables, cases: Sequence[str]) -> None:
    for name in reversed(cases):
        rows, curve = part(tables["course"], "case", name), part(tables["losses"], "case", name)
        first = name == cases[0]
        for column, color, marker in (("r_v", GREEN, "o"), ("r_p", PURPLE, "s")):
            upper.plot(
                rows["epoch"], rows[column], color=color, linestyle="-" if first else DASHES,
                marker=marker, markersize=2.6, markeredgewidth=0, clip_on=False,
                label=f"${column}$" if first else None,
            )  # fmt: skip
        lower.plot(curve["epoch"], curve["loss"], color=INK, linestyle="-" if first else DASHES,
                   label=None if first else name)  # fmt: skip
    last = int(part(tables["course"], "case", cases[0])["epoch"].max())
    ticks = [0, *(each for each in (1, 10, 100) if each <= 0.4 * last), last]
    lower.set_xscale("symlog", linthresh=1, linscale=0.4)
    lower.set_xticks(ticks, [f"{each:,}" for each in ticks])
    if len(cases) > 1:
        lower.legend(loc="lower left")
    upper.tick_params(labelbottom=False)
    upper.axhline(0.0, color=GRAY, linewidth=0.5, zorder=0)
    upper.set(ylim=(-0.25, 1.0), yticks=(0, 0.5, 1), ylabel="rank correlation")
    upper.legend(loc="best", ncols=1)
    loss = part(tables["losses"], "case", cases[0])["loss"]
    low, high = (10.0 ** np.floor(np.log10(loss.min())), 2.0)
    lower.set(xlim=(0, last), yscale="log", ylim=(low, high), xlabel="epochs", ylabel="loss")
    lower.set_yticks(10.0 ** np.arange(np.log10(low), 1.0, 2 if low < 1e-3 else 1))
    lower.minorticks_off()
