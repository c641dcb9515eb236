"""B-NEW-4 on random problems: python tests/papers/checking/soundness_index.py [PLANAR SPATIAL] (1000 and 50).

Prints the verdicts, and every problem whose verdict is not "holds" with its seed. A failure exits with 1. The
tests run a few of the same problems.
"""

import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np

import hardmax as hm
from hardmax.papers.checking.check import Check


def draw(d: int, seed: int) -> hm.Problem:
    """Up to four inputs of two to four Gaussian tokens; every third draw has other lengths of its inputs."""
    rng = np.random.default_rng([d, seed])
    n, T = int(rng.integers(1, 5)), int(rng.integers(2, 5))
    sizes = [T, *rng.integers(1, T + 1, size=n - 1)] if seed % 3 == 0 else [T] * n
    loss = ("logistic", "exponential", "correlation")[seed % 3]
    keys = [rng.normal(size=(size, d)) for size in sizes]
    return hm.Problem(keys, [rng.normal(size=len(k)) for k in keys], loss)


def verdicts(d: int, count: int) -> Iterator[tuple[int, Check]]:
    """The check on the first draws of a dimension."""
    for seed in range(count):
        yield seed, hm.check_statement("B-NEW-4", draw(d, seed))


def main(planar: int, spatial: int) -> int:
    """Run, print, and say whether anything failed."""
    failed = 0
    for d, count in ((2, planar), (3, spatial)):
        seen: Counter[str] = Counter()
        for seed, check in verdicts(d, count):
            seen[check.verdict] += 1
            if check.verdict != "holds":
                why = [h.measured for h in check.hypotheses if not h.holds] or dict(check.measured)
                print(f"d = {d}, seed {seed}: {check.verdict}, {why}", flush=True)
        print(f"d = {d}: {count} problems, {dict(seen)}")
        failed += seen["fails"]
    return 1 if failed else 0


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:3]]
    sys.exit(main(*sizes) if len(sizes) == 2 else main(1000, 50))
