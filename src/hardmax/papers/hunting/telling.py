"""A counterexample as lines for a terminal, a file that other commands read, a picture, or LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib.files import whole_text
from hardmax.directions.enumerate import attractors
from hardmax.papers.checking.instances import read_subject
from hardmax.papers.hunting.candidates import (
    VALUES,
    VECTORS,
    Candidate,
    ProblemCandidate,
    WordsCandidate,
    word,
)
from hardmax.papers.hunting.claims import HuntedClaim
from hardmax.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def told(candidate: Candidate) -> list[str]:
    """Return the data, one line for each input."""
    n, T, d = candidate.size
    if isinstance(candidate, WordsCandidate):
        lines = [f"{n} {'sequences' if candidate.labels else 'sentences'}, {T} tokens, {d} words"]
        for i, row in enumerate(candidate.rows):
            label = "" if candidate.labels is None else f"{candidate.labels[i]:+d}  "
            lines.append(f"  {label}{' '.join(map(word, row))}")
    else:
        lines = [f"n = {n}, {T} tokens, d = {d}, {candidate.loss} loss"]
        for i, part in enumerate(candidate.tokens):
            keys = "  ".join(_vector(row) for row in part)
            marks = [] if candidate.scores is None else [f"scores {_vector(candidate.scores[i])}"]
            marks += [] if candidate.labels is None else [f"label {int(candidate.labels[i]):+d}"]
            marks += [] if candidate.queries is None else [f"query {_vector(candidate.queries[i])}"]
            lines.append(f"  {keys}   {', '.join(marks)}")
        if candidate.head is not None:
            lines.append(f"  head {_vector(candidate.head)}")
    return lines + [f"  {name} {value}" for name, value in _vectors(candidate).items()]


def _vectors(candidate: Candidate) -> dict[str, str]:
    """Return the options that are not single numbers, as text."""
    return {name: _vector(x) for name, x in candidate.options.items() if not np.isscalar(x)}


def _vector(x: Any) -> str:
    return "(" + ", ".join(map(_number, x)) + ")"


def _number(x: Any) -> str:
    if isinstance(x, list | tuple):
        return "{" + " ".join(map(str, x)) + "}"
    return f"{x:g}" if float(f"{x:g}") == x else repr(float(x))


def write(candidate: Candidate, folder: Path, claim: str, verdict: str, proof: str | None) -> list[Path]:
    """Write the counterexample, first in the list; a picture where d <= 2; LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(candidate, ProblemCandidate):
        data = folder / "counterexample.json"
        candidate.subject().save(data)
    else:
        data = folder / ("counterexample.txt" if candidate.labels is None else "counterexample.csv")
        with whole_text(data) as file:
            file.write(_text(candidate))
    files = [data]
    if (figure := picture(candidate)) is not None:
        files.append(folder / "counterexample.svg")
        figure.savefig(files[-1])
    fragment = folder / "counterexample.tex"
    with whole_text(fragment) as file:
        file.write(latex(candidate, claim, verdict, proof))
    return [*files, fragment]


def _text(candidate: WordsCandidate) -> str:
    lines = [" ".join(map(word, row)) for row in candidate.rows]
    if candidate.labels is None:
        return "\n".join(lines) + "\n"
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["text", "label"])
    writer.writerows(zip(lines, candidate.labels, strict=True))
    return table.getvalue()


def read(claim: HuntedClaim, file: Path, given: Mapping[str, Any]) -> Candidate:
    """Read the data of a file as a candidate, with the options of the claim."""
    subject = read_subject(claim.space.family, file)
    options = {k: np.array(v, dtype=float) if k in (*VECTORS, VALUES) else v for k, v in given.items()}
    if isinstance(subject, Problem):
        return replace(problem_candidate(subject), options=options)
    if claim.space.family == "corpus":
        rows = tuple(tuple(row.tolist()) for row in subject.sequences())
        return WordsCandidate(rows, tuple(int(y) for y in subject.labels), options)
    bounds = zip(subject.offsets[:-1], subject.offsets[1:], strict=True)
    return WordsCandidate(tuple(tuple(subject.tokens[a:b].tolist()) for a, b in bounds), options=options)


def problem_candidate(problem: Problem) -> ProblemCandidate:
    """Return a candidate of keys and scores, or of tokens, labels and a head that are their own keys."""
    tokens = tuple(problem.split(problem.keys[problem.tokens]))
    head = problem.readout.linear
    if head is not None and head.values is not None and np.array_equal(head.values, problem.keys):
        return ProblemCandidate(tokens, labels=head.labels, head=head.v, loss=problem.loss.name)
    return ProblemCandidate(tokens, tuple(problem.split(problem.scores)), loss=problem.loss.name)


def picture(candidate: Candidate) -> Figure | None:
    """Draw keys of a problem on a line or in the plane, with scores, and the directions that attract."""
    if not isinstance(candidate, ProblemCandidate) or candidate.d > 2 or candidate.queries is not None:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4, 3.0), layout="constrained")
    axes = figure.subplots()
    problem = candidate.subject()
    keys, scores = problem.keys[problem.tokens], problem.scores
    flat = np.column_stack([keys, np.zeros(len(keys))]) if candidate.d == 1 else keys
    for i, (part, heights) in enumerate(zip(problem.split(flat), problem.split(scores), strict=True)):
        lifted = part + np.array([0.0, 0.15 * i if candidate.d == 1 else 0.0])
        axes.plot(*lifted.T, "o", ms=7, mfc="none" if i % 2 else None, color=f"C{i}", label=f"input {i}")
        for place, score in zip(lifted, heights, strict=True):
            axes.annotate(f"{score:g}", place, (4, 5), textcoords="offset points", fontsize=8)
    reach = float(np.abs(flat).max()) or 1.0
    for attractor in attractors(problem, limit=20):
        if attractor.direction is not None:
            end = reach * np.append(attractor.direction, [0.0] * (2 - candidate.d))
            axes.annotate("", (end[0], end[1]), (0, 0), arrowprops={"arrowstyle": "->", "color": "0.4"})
    axes.set(xlim=(-1.4 * reach, 1.4 * reach), ylim=(-1.4 * reach, 1.4 * reach), aspect="equal")
    axes.legend(fontsize=7, frameon=False, loc="upper left")
    axes.set_title("keys with scores; arrows attract", fontsize=8)
    return figure


def latex(candidate: Candidate, claim: str, verdict: str, proof: str | None) -> str:
    """Return the numbers as a fragment for a paper."""
    n, _, d = candidate.size
    name = claim.replace("_", r"\_")
    head = f"% {claim}: {verdict}\n\\textbf{{{name}}} fails for "
    if isinstance(candidate, WordsCandidate):
        what = "sequences" if candidate.labels is not None else "sentences"
        rows = [r"\texttt{" + " ".join(map(word, row)) + "}" for row in candidate.rows]
        if candidate.labels is not None:
            rows = [f"{row}~(${y:+d}$)" for row, y in zip(rows, candidate.labels, strict=True)]
        body = f"the {n} {what} {', '.join(rows)}"
    else:
        parts = []
        for i, part in enumerate(candidate.tokens):
            keys = ",\\ ".join(_vector(row) for row in part)
            parts.append(f"$k_{{{i + 1}\\cdot}} = {keys}$")
            if candidate.scores is not None:
                parts[-1] += f" with scores ${_vector(candidate.scores[i])}$"
            if candidate.labels is not None:
                parts[-1] += f" with label ${int(candidate.labels[i]):+d}$"
        if candidate.head is not None:
            parts.append(f"$v = {_vector(candidate.head)}$")
        body = f"$n = {n}$, $d = {d}$, {candidate.loss} loss: {'; '.join(parts)}"
    options = "".join(f", {name} ${value}$" for name, value in _vectors(candidate).items())
    return f"{head}{body}{options}.{'' if proof is None else f' Proof: {proof}.'}\n"
