"""Mutation sanity: four deliberate mistakes in a copy of the tree, and which tests notice each.

``make mutations`` (or ``python tests/test_mutations.py``) makes one after another and prints the tests that
fail. As a part of the tests, this file only checks that every mistake can still be made.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutation:
    """A mistake in one file of the package (right text -> wrong text), and tests that should notice it."""

    name: str
    file: str
    edits: dict[str, str]
    tests: tuple[str, ...]

    def mutate(self, text: str) -> str:
        for right, wrong in self.edits.items():
            if text.count(right) != 1:
                raise ValueError(f"{self.file}: expected {right!r} once, got it {text.count(right)} times")
            text = text.replace(right, wrong)
        return text


MUTATIONS = (
    Mutation(
        "the top token's key is added, not taken away",
        "problem/kernels.py",
        {"(table[token, j] - table[reference, j])": "(table[token, j] + table[reference, j])"},
        ("tests/dynamics/test_gradient_oracles.py", "tests/dynamics/test_train.py"),
    ),
    Mutation(
        "tied tokens are not held equal",
        "margin/closed_forms/patterns.py",
        {"pairs = [*wins, *ties]": "pairs, ties = [*wins], []"},
        ("tests/margin/test_oracles.py", "tests/embeddings/test_patterns.py"),
    ),
    Mutation(
        "certified is what the solver says",
        "margin/solve.py",
        {
            "return (measured.kkt <= tolerance) & (measured.lower > 0) & narrow": (
                "return np.ones_like(narrow, dtype=bool)"
            )
        },
        ("tests/margin/test_truth.py", "tests/margin/test_fuzz.py", "tests/margin/test_batch.py"),
    ),
    Mutation(
        "no maximisation over selections: the first feasible one",
        "directions/joint_margins.py",
        {"return max(limits, key=": "return min(limits[:1], key="},
        (
            "tests/margin/test_problems.py",
            "tests/papers/checking/test_numbers.py::test_the_selection_switches_with_rho",
        ),
    ),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_mistake_can_still_be_made(mutation):
    compile(mutation.mutate((ROOT / "src" / "hardmax" / mutation.file).read_text()), mutation.file, "exec")
    assert [name for name in mutation.tests if not (ROOT / name.partition("::")[0]).exists()] == []


def failures(tree: Path, tests: tuple[str, ...], kernels: Path) -> tuple[list[str], str]:
    """The tests that fail in a tree, and pytest's own summary."""
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(kernels),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(tree / "src"),
    }
    options = ["-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "--hypothesis-profile=mutations"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=tree,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest did not run:\n{done.stdout}")
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, flags=re.MULTILINE)
    return failed, done.stdout.splitlines()[-1].strip("= ")


def main() -> int:
    """Make each mistake alone and tell which tests fail; exit code 1 if one goes unnoticed."""
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "results"))
        for mutation in MUTATIONS:
            path = tree / "src" / "hardmax" / mutation.file
            right = path.read_text()
            path.write_text(mutation.mutate(right))
            # A kernel is cached by the date of its own file, not of those it calls.
            kernels = Path(folder) / (path.stem if "njit" in right else "kernels")
            failed, summary = failures(tree, mutation.tests, kernels)
            path.write_text(right)
            unnoticed += not failed
            print(f"{mutation.name} ({mutation.file}): {summary}", *failed, sep="\n    ", flush=True)
    return int(unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main())
