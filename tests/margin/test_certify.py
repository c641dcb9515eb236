"""Certificates survive a round trip and no tampering."""

from __future__ import annotations

import copy
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax.margin.certificates.checking as module
from hardmax.margin.certificates.checking import certify
from hardmax.margin.constraints import Constraints
from hardmax.margin.solve import solve

ROWS = [[1.0, 1.0], [1.0, -1.0], [0.5, 1.5], [3.0, 0.25]]
CASES = {
    "float": (Constraints.dense(ROWS), False),
    "exact": (Constraints.dense(ROWS), True),
    "tied float": (Constraints.dense(ROWS, E=[[1.0, -3.0]]), False),
    "tied exact": (Constraints.dense(ROWS, E=[[1.0, -3.0]]), True),
    "infeasible": (Constraints.dense([*ROWS, [-4.0, 0.5]]), False),
    "gram float": (Constraints.from_gram([[2.0, 0.5], [0.5, 1.0]], [0, 1], [1, -1]), False),
    "gram exact": (Constraints.from_gram([[2.0, 0.5], [0.5, 1.0]], [0, 1], [1, -1]), True),
    "outer": (Constraints.pairs(np.eye(2), [0, 1], [1, -1], right=[[1.0, 0.5]], right_of=[0, 0]), False),
    "entries float": (Constraints.between_entries((3,), [0, 0, 1], [1, 2, 2]), False),
    "entries exact": (Constraints.between_entries((3,), [0, 0, 1], [1, 2, 2]), True),
    "nothing asked": (Constraints.dense(ROWS, h=0.0), False),
}


def sealed(certificate: dict[str, Any]) -> dict[str, Any]:
    """What a liar would do: recompute the digest."""
    content = {k: v for k, v in certificate.items() if k != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {**content, "digest": hashlib.sha256(text.encode()).hexdigest()}


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str, tmp_path: Path) -> None:
    constraints, exact = CASES[name]
    file = tmp_path / "proof.json"
    best = solve(constraints, exact)
    best.save(file)
    verdict = certify(file)
    assert verdict["violations"] == []
    assert verdict["valid"]
    assert certify(str(file)) == certify(best.to_dict())
    assert ("float" in name) == (best.certificate == "float") or name == "outer"


def test_what_is_proved() -> None:
    assert certify(solve(Constraints.dense(ROWS[:2]), exact=True).to_dict())["what"] == (
        "p is the minimum-norm solution, |p|^2 = 1"
    )
    assert certify(solve(*CASES["infeasible"]).to_dict())["what"].startswith("infeasible: the Farkas vector")
    assert certify(solve(*CASES["float"]).to_dict())["what"].startswith("the margin lies in [0.78")


def changed(value: Any) -> list[Any]:
    """A few small lies about one value."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, str):
        if value in ("certified", "infeasible", "undecided"):
            return [s for s in ("certified", "infeasible", "undecided") if s != value]
        if "0x" in value and "nan" not in value:
            number = float.fromhex(value)
            return [(number + 0.5).hex(), (-number or 1.0).hex()]
        return [value + "1", ""]
    if isinstance(value, list) and value:
        return [
            value[:-1],
            *([*value[:i], lie, *value[i + 1 :]] for i, x in enumerate(value) for lie in changed(x)),
        ]
    return [["0x1p+0"]]


@pytest.mark.parametrize("name", CASES)
def test_any_change_breaks_the_seal(name: str) -> None:
    certificate = solve(*CASES[name]).to_dict()
    for key in certificate:
        for lie in changed(certificate[key]):
            assert not certify({**certificate, key: lie})["valid"], (key, lie)
        assert not certify({k: v for k, v in certificate.items() if k != key})["valid"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("key", ["p", "multipliers", "farkas", "norm_squared", "status", "certificate"])
def test_a_resealed_lie_about_the_proof_is_found(name: str, key: str) -> None:
    certificate = solve(*CASES[name]).to_dict()
    if name == "nothing asked" and key == "p":
        return
    for lie in changed(certificate[key]):
        if lie == "undecided":
            continue  # claims less, and may be true
        verdict = certify(sealed({**certificate, key: lie}))
        assert not verdict["valid"] or verdict["what"].startswith("the margin lies"), (key, lie)
        if certificate["certificate"] == "exact":
            assert not verdict["valid"], (key, lie)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("nothing asked", "infeasible")])
def test_a_resealed_interval_must_be_true(name: str) -> None:
    certificate = solve(*CASES[name]).to_dict()
    lower, upper = (float.fromhex(x) for x in certificate["margin_interval"])
    for lie in (
        [upper * 1.1, upper * 1.2],
        [lower * 0.8, lower * 0.9],
        [upper + 1, upper + 1],
        [-1.0, upper],
    ):
        assert not certify(sealed({**certificate, "margin_interval": [x.hex() for x in lie]}))["valid"]


def test_a_contradiction_is_not_believed_on_other_data() -> None:
    certificate = copy.deepcopy(solve(*CASES["infeasible"]).to_dict())
    certificate["table"][0][0] = (2.0).hex()
    assert not certify(sealed(certificate))["valid"] or certificate["farkas"][0] == "0"


def test_unreadable_files(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert not certify(broken)["valid"]
    assert not certify(tmp_path / "missing.json")["valid"]
    broken.write_text("[]")
    assert not certify(broken)["valid"]


def test_the_checker_stands_alone() -> None:
    """Two files of readable length that import each other and the standard library, nothing of the solver."""
    own = "hardmax.margin.certificates.norms"
    for name in ("checking.py", "norms.py"):
        lines = Path(module.__file__).with_name(name).read_text().splitlines()
        imports = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
        assert {each.split(".")[0] for each in imports - {own}} <= sys.stdlib_module_names
        assert len(lines) < 260


def test_numbers_that_are_not_finite_prove_nothing_and_labels_are_said_to_be_names() -> None:
    good = solve(Constraints.dense([[1.0, 0.5], [-0.5, 1.0]])).to_dict()
    found = certify(good)
    assert found["valid"]
    assert [each.partition(":")[0] for each in found["trusted"]] == ["labels"]
    gram = Constraints.from_gram([[1.0, 0.0], [0.0, 1.0]], plus=[0], minus=[1])
    trusted = certify(solve(gram).to_dict())["trusted"]
    assert [each.partition(":")[0] for each in trusted] == ["labels", "gram"]
    for text in ("nan", "inf", "-inf", "NaN", "1e999999999"):
        for name in ("h", "multipliers", "p", "table"):
            spoilt = {**good, name: [[text] * 2] * 2 if name == "table" else [text] * 2}
            assert not certify(_signed(spoilt))["valid"]
    for labels in ([], ["(0,)"], [1, 2], None):
        assert not certify(_signed({**good, "labels": labels}))["valid"]


def _signed(content: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return {**rest, "digest": hashlib.sha256(text.encode()).hexdigest()}
