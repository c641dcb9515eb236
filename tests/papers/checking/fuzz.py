"""All statements of the max-margin paper and of part D on random problems: nothing proved may fail.

    python tests/papers/checking/fuzz.py --problems 2000

draws problems with up to four inputs, tokens and dimensions (Gaussian, small integers with ties and copies,
nearly degenerate ones, heads with labels), runs every statement on each and prints the verdicts. It exits
with 1 if a proved or derived statement fails. The tests run a few of these problems.
"""

from __future__ import annotations

import argparse
import collections
import inspect
import sys
import time
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.papers.checking.check import Check, check_statement, statements

# Samples are as small as those of a hunt: many problems show more than many draws.
LIGHTER: dict[str, dict[str, Any]] = {
    **{id: dict(each.hunt) for id, each in statements().items() if each.hunt},
    "B-ERR-21": {"count": 1},
    "B-NEW-1": {"steps": 2000},
    "B-THM-2M": {"steps": 300},
    "B-THM-L1": {"steps": 20},
}

SLOW = 20.0  # seconds from which a single verdict is worth a line


def draw_problem(seed: int) -> hm.Problem:
    """Problem number ``seed``: what it looks like changes with the number."""
    rng = np.random.default_rng([15, seed])
    n, T, d = (int(x) for x in rng.integers(1, 5, size=3))
    style = seed % 5
    if style == 4:
        X, v = rng.normal(size=(n, T, d)), rng.normal(size=d)
        return hm.Problem.from_tokens(X, rng.choice([-1, 1], size=n), v, W=rng.normal(size=(d, d)))
    if style == 0:
        keys, scores = rng.normal(size=(n, T, d)), rng.normal(size=(n, T))
    elif style == 1:  # ties, copies and degenerate positions
        keys = rng.integers(-2, 3, size=(n, T, d)).astype(float)
        scores = rng.integers(0, 3, size=(n, T)).astype(float)
    elif style == 2:  # one best token, equal others: Assumption B
        keys, scores = rng.normal(size=(n, T, d)), np.zeros((n, T))
        scores[:, 0] = 1.0
    else:  # second margins close to the first
        keys = rng.integers(-2, 3, size=(n, T, d)) + 10.0 ** rng.uniform(-9, -2) * rng.normal(size=(n, T, d))
        scores = rng.integers(0, 3, size=(n, T)) + 10.0 ** rng.uniform(-9, -2) * rng.normal(size=(n, T))
    scale = 10.0 ** rng.uniform(-3, 3) if seed % 7 == 0 else 1.0
    loss = ("logistic", "exponential", "correlation")[int(rng.integers(3))]
    return hm.Problem(scale * keys, scores, loss)


def subject_of(id: str, seed: int) -> hm.Problem:
    """What the statement is tried on: inputs with queries or with labels where it is about these."""
    if statements()[id].data == "queries":
        rng = np.random.default_rng([18, seed])
        n, T, d, e = (int(x) for x in rng.integers([1, 2, 2, 2], 4, size=4))
        tokens, queries = rng.normal(size=(n, T, d)), rng.normal(size=(n, e))
        return hm.Problem.from_queries(tokens, queries, rng.normal(size=(n, T)))
    if statements()[id].data == "labels":  # few directions, so that most do not separate
        rng = np.random.default_rng([19, seed])
        n, T, d = (int(x) for x in rng.integers([2, 2, 2], [6, 4, 4], size=3))
        scores = np.eye(T)[rng.integers(T, size=n)]
        return hm.Problem(rng.integers(-1, 2, size=(n, T, d)).astype(float), scores, loss="log")
    return draw_problem(seed)


def options_of(id: str, problem: hm.Problem, seed: int) -> dict[str, Any]:
    """What the statement must be told, drawn; selections are feasible ones where there are any."""
    rng = np.random.default_rng([16, seed])
    feasible = [found.selection for found in hm.selections(problem, limit=20)]
    chosen = feasible[int(rng.integers(len(feasible)))] if feasible else (0,) * problem.n
    given: dict[str, Any] = {
        "selection": chosen,
        "p": rng.normal(size=problem.d),
        "q": rng.normal(size=problem.d),
        "rho": float(rng.uniform(0.2, 3.0)),
        "start": rng.normal(size=problem.d),
    }
    parameters = list(inspect.signature(statements()[id].test).parameters.values())[1:]
    asked = {p.name: given[p.name] for p in parameters if p.default is p.empty and p.name in given}
    if id == "B-THM-6":
        asked["rho"] = given["rho"]
    if id == "B-THM-L8":  # a neighbor of p, so that both select the same more often than not
        asked["q"] = asked["p"] + 0.1 * given["q"]
    return {**asked, **LIGHTER.get(id, {})}


def verdict_of(id: str, seed: int) -> Check:
    """One statement on one problem."""
    problem = subject_of(id, seed)
    return check_statement(id, problem, **options_of(id, problem, seed))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first problem")
    parser.add_argument("--id", action="append", help="only these statements")
    asked = parser.parse_args()
    ids = asked.id or [id for id in statements() if id[0] in "BD"]
    counts: dict[str, collections.Counter[str]] = {id: collections.Counter() for id in ids}
    seconds: collections.Counter[str] = collections.Counter()
    failed = []
    for seed in range(asked.first, asked.first + asked.problems):
        if seed % 100 == 0:
            print(f"problem {seed}", file=sys.stderr, flush=True)
        for id in ids:
            begun = time.perf_counter()
            try:
                found = verdict_of(id, seed)
            except Exception as error:  # a verdict is owed, whatever the data
                failed.append((id, seed))
                print(f"{id} raised {type(error).__name__} on problem {seed}: {error}", flush=True)
                continue
            taken = time.perf_counter() - begun
            seconds[id] += taken
            if taken > SLOW:
                print(f"{id} took {taken:.0f} s on problem {seed}", file=sys.stderr, flush=True)
            counts[id][found.verdict] += 1
            if found.verdict in ("fails", "refuted") and found.label != "measured":
                failed.append((id, seed))
                print(f"{id} {found.verdict} on problem {seed}: {found.slack}, {found.proof}", flush=True)
    words = ("holds", "consistent", "vacuous", "not applicable", "undecided", "fails", "refuted")
    print(f"{'':10}" + "".join(f"{word:>16}" for word in words) + f"{'undecided of applicable':>26}")
    for id in ids:
        applicable = sum(counts[id].values()) - counts[id]["not applicable"]
        share = f"{counts[id]['undecided'] / applicable:.1%}" if applicable else "-"
        print(
            f"{id:10}"
            + "".join(f"{counts[id][word]:16}" for word in words)
            + f"{share:>26}"
            + f"{seconds[id] / asked.problems:9.3f} s"
        )
    total = sum(counts.values(), collections.Counter())
    judged = sum(total.values()) - total["not applicable"]
    print(f"{sum(total.values())} verdicts, {total['undecided'] / max(judged, 1):.1%} of {judged} undecided")
    print(f"{len(failed)} proved or derived statements failed or raised an error")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
