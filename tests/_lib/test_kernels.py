"""Kernels without the compiler: the same bits, no numba in the process, and only while little is asked."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax._lib import kernels
from hardmax._lib.arrays import find_leaders
from hardmax._lib.compiling import Compiled
from hardmax._lib.kernels import Kernel
from hardmax.margin import kernel

ROOT = Path(__file__).parents[2]
THREE = ROOT / "examples" / "three-inputs.json"


def _stacks():
    """Separable and contradictory rows, tied ones, dependent ones; with equalities and many rows."""
    rng = np.random.default_rng(17)
    for B, m, d in [(40, 9, 2), (20, 1, 3), (20, 12, 5), (10, 30, 8), (1, 200, 3), (1, 2200, 2)]:
        yield rng.normal(size=(B, m, d)) + rng.choice([0.2, 2.0])
        yield np.round(rng.normal(size=(B, m, d)) + 1.0)
        yield rng.normal(size=(B, m, 1)) * rng.normal(size=(B, 1, d)) + (rng.random((B, m, d)) < 0.1)


def _answers(form):
    for A in _stacks():
        B, m, d = A.shape
        norms = np.sqrt((A**2).sum(axis=2))
        norms[norms == 0] = 1.0
        p, weights, verdicts = np.zeros((B, d)), np.zeros((B, m)), np.zeros(B, dtype=np.int64)
        h, equal = np.ones((B, m)), np.zeros((B, m), dtype=bool)
        form(kernel.active_sets)(A, h, equal, norms, p, weights, verdicts)
        yield p, weights, verdicts
        h[:], equal[:, 0] = 0.7, True
        Mp, sizes = np.zeros((B, m)), np.zeros((B, 3))
        p, weights, verdicts = np.zeros((B, d)), np.zeros((B, m)), np.zeros(B, dtype=np.int64)
        form(kernel.active_sets)(A, h, equal, norms, p, weights, verdicts)
        form(kernel.combine_each)(A, p, weights, Mp, sizes)
        yield p, weights, Mp, sizes


@pytest.mark.compiled
def test_both_forms_give_the_same_bits():
    plain, compiled = _answers(lambda each: each.plain), _answers(lambda each: each.compiled)
    verdicts = []
    for ours, theirs in zip(plain, compiled, strict=True):
        assert [x.tobytes() for x in ours] == [x.tobytes() for x in theirs]
        verdicts += ours[2].tolist() if ours[2].dtype == np.int64 else []
    assert {kernel.FOUND, kernel.CONTRADICTION} <= set(verdicts)
    keys, offsets = np.repeat(np.arange(12.0).reshape(6, 2), 2, axis=0), np.array([0, 5, 12])
    given = keys, np.arange(12), offsets, np.arange(12.0).reshape(12, 1) // 3
    assert find_leaders.plain(*given).tolist() == find_leaders.compiled(*given).tolist()


@pytest.mark.compiled
def test_a_small_problem_is_solved_without_numba_to_the_bit_as_with_it():
    line = (
        "import sys{}; from hardmax.app.cli import run; code = run({!r}); print('numba' in sys.modules, code)"
    )
    told = []
    for also in ("", ", numba"):
        command = [sys.executable, "-c", line.format(also, ["solve", str(THREE), "--json", "--all"])]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        told.append(done.stdout.splitlines())
    (answer, without), (same, with_it) = told
    assert answer == same
    assert (without, with_it) == ("False 0", "True 0")


def test_the_compiler_is_asked_when_there_is_enough_to_do(monkeypatch):
    monkeypatch.setattr(Kernel, "_taken", 0.0)
    monkeypatch.setattr(kernels, "LITTLE", 10)
    monkeypatch.delitem(sys.modules, "numba", raising=False)

    def double(x):
        return 2 * x

    own = Kernel(double, lambda x: x, None, {})
    asked = []
    own._compiled = None
    monkeypatch.setattr(Kernel, "compiled", property(lambda self: lambda x: asked.append(x) or double(x)))
    assert [own(4), own(6), own(1)] == [8, 12, 2]
    assert asked == [1]
    assert Kernel(double, None, None, {})(3) == 6  # a kernel without an estimate is not run plain
    assert asked == [1, 3]


def test_long_sums_are_left_to_the_compiler():
    assert kernel.work(np.zeros((2, 3, kernel._ORDERED))) == 2 * 3 * 8 * 5
    assert kernel.work(np.zeros((3, kernel._ORDERED + 1))) == np.inf


def test_a_command_runs_little_plain_beside_numba_until_it_is_compiled(monkeypatch):
    def double(x):
        return np.float64(2.0) * x, np.int64(3)

    own = Kernel(double, lambda x: 1.0, None, {})
    monkeypatch.setattr(Kernel, "_taken", 0.0)
    monkeypatch.setitem(sys.modules, "numba", sys)
    monkeypatch.setattr(Kernel, "compiled", property(lambda self: lambda x: "compiled"))
    kept = []
    monkeypatch.setattr("hardmax._lib.caching.has_kernel", lambda function: bool(kept))
    assert own(2) == "compiled"  # not in a command
    monkeypatch.setattr(Compiled, "hurries", True)
    found = own(2)
    assert (found, [type(each) for each in found]) == ((4.0, 3), [float, int])
    kept.append(1)
    assert Kernel(double, lambda x: 1.0, None, {})(2) == "compiled"
    monkeypatch.setattr(Kernel, "_taken", 1e9)
    assert own(2) == "compiled"


def _texts():
    """Sentences with repeated and torn beginnings, with words beyond ASCII, long ones, and odd spaces."""
    rng = np.random.default_rng(5)
    words = ["a", "b", "c", "d", "ü", "longer-than-eight", "longer-than-nine", "\u4e2d\u6587", "e\u2003f"]
    for n, V, T in [(1, 2, 3), (6, 3, 5), (40, 4, 6), (60, 9, 9), (30, 9, 70)]:
        lines = [" ".join(words[k] for k in rng.integers(V, size=rng.integers(1, T))) for _ in range(n)]
        yield "\n".join([*lines, *lines[::3]]) + "\n"


@pytest.mark.compiled
def test_sentences_are_checked_the_same_without_the_compiler(monkeypatch, tmp_path):
    """Also more of them than a command leaves to the plain source: relations outgrow their first table."""

    def plain(self, *arguments):
        with np.errstate(all="ignore"):
            return kernels._boxed(self.plain(*arguments))

    told = {}
    for form in (plain, lambda self, *arguments: self.compiled(*arguments)):
        monkeypatch.setattr(Kernel, "__call__", form)
        for k, text in enumerate(_texts()):
            file = tmp_path / f"{k}.txt"
            file.write_text(text, encoding="utf-8")
            answer = hm.nexttoken.check(file)
            told.setdefault(k, []).append(json.dumps([answer.fields(), answer.analysis.teaches_attention]))
    assert [ours == theirs for ours, theirs in told.values()] == 5 * [True]


@pytest.mark.compiled
def test_a_small_text_is_checked_without_numba():
    line = (
        "import sys; from hardmax.app.cli import run; code = run({!r}); print('numba' in sys.modules, code)"
    )
    command = [sys.executable, "-c", line.format(["ntp", "check", str(ROOT / "examples" / "svop.txt")])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False 0"
