"""Certificates survive a round trip and no tampering."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm
import hardmax.margin.certificates as module
from hardmax.margin.certificates import PowerBall, certify
from hardmax.margin.constraints import Constraints
from hardmax.margin.norms import NORMS as REGISTERED
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
    assert ("float" in name) == (best.arithmetic == "float") or name == "outer"


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


NORMS = ("l1", "linf", "l2", "l1.5", "l3", "nuclear", "spectral")


def forged(certificate: dict[str, Any], rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Lies of which each claims what is false, whatever it is backed by; all with the right digest."""
    ends = [float.fromhex(x) for x in certificate["margin_interval"]]
    share = 10.0 ** rng.uniform(-6, 1)

    def scaled(field: str, factor: float) -> Any:
        told = certificate[field]
        rows = told if isinstance(told[0], list) else [told]
        made = [[(factor * float.fromhex(x)).hex() for x in row] for row in rows]
        return made if isinstance(told[0], list) else made[0]

    def interval(low: float, high: float) -> list[str]:
        return [low.hex(), high.hex()]

    lies: dict[str, dict[str, Any]] = {
        "too large": {"margin_interval": interval(ends[0] * (1 + share), ends[1] * (1 + 2 * share))},
        "too small": {"margin_interval": interval(ends[0] / (1 + 2 * share), ends[1] / (1 + share))},
        "upside down": {"margin_interval": interval(ends[1] * (1 + share), ends[0] / (1 + share))},
        "longer rows": {"table": scaled("table", 1 + share)},
        "shorter rows": {"table": scaled("table", 1 / (1 + share))},
        "larger bounds": {"h": scaled("h", 1 + share)},
        "infeasible": {
            "status": "infeasible", "certificate": "exact", "farkas": certificate["multipliers"],
            "multipliers": None, "p": None, "margin_interval": interval(0.0, 0.0), "norm_squared": None,
        },
        "without p": {"p": ["0x0.0p+0"] * len(certificate["p"])},
        "against p": {"p": [x[1:] if x.startswith("-") else f"-{x}" for x in certificate["p"]]},
        "without multipliers": {"multipliers": ["0x0.0p+0"] * len(certificate["h"])},
        "one multiplier below zero": {"multipliers": ["-0x1.0p-9", *certificate["multipliers"][1:]]},
    }  # fmt: skip
    return {name: sealed({**certificate, **lie}) for name, lie in lies.items()}


def test_a_thousand_forgeries_are_refused() -> None:
    """In every norm, floats and fractions; each claims a margin, a verdict or a proof that is false."""
    rng = np.random.default_rng(1152)
    tried = 0
    for k in range(98):
        norm = NORMS[k % len(NORMS)]
        a, b, W = rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), rng.normal(size=(2, 2))
        if k % 3 == 0:
            a, b = np.round(4 * a) + 0.25, np.round(2 * b) + 0.5
        a *= np.sign(np.einsum("ij,jk,ik->i", a, W, b))[:, None]
        rows = Constraints.pairs(a, range(4), [-1] * 4, right=b, right_of=range(4))
        best = hm.max_margin(rows, norm=norm, exact=norm in ("l1", "l2", "linf") and k % 2 == 0)
        certificate = best.to_dict()
        assert certify(certificate)["valid"]
        for name, lie in forged(certificate, rng).items():
            assert not certify(lie)["valid"], (norm, name)
            tried += 1
    assert tried >= 1_000


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
    """A file of readable length that imports the standard library, nothing of the solver."""
    lines = Path(module.__file__).read_text().splitlines()
    imports = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
    assert {name.split(".")[0] for name in imports} <= sys.stdlib_module_names
    assert len(lines) < 600


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


def test_a_power_of_1e58_is_not_believed() -> None:
    """The norm of (1, 1, 1) is above 1 in every power: r ln(ratio) needs more digits than r has zeros."""
    rows = [["0x1p+0", "0x1p+0", "0x1p+0"]]
    for name in ("l1.2e58", "l3e57", "l1e300", "l7"):
        for margin in (3.0, math.nextafter(3.0, 4.0)):
            proof = dict(solve(Constraints.dense([[1.0, 1.0, 1.0]])).to_dict())
            ends = [margin.hex(), math.nextafter(margin, 4.0).hex()]
            proof |= {"norm_name": name, "p": rows[0], "multipliers": ["1"], "margin_interval": ends}
            assert not certify(_signed(proof))["valid"], (name, margin)
    x = [Fraction(1)] * 3
    for text in ("1.2e58", "1e30", "3e57", "1e300"):
        root = Fraction(3) ** 400 if float(text) < 400 else 1 + Fraction(11, 10) / Fraction(float(text))
        # |x|_r = 3^(1/r) is just below 1 + ln(3)/r + ..., and ln(3) is 1.0986
        assert PowerBall(f"l{text}").at_most(x, root, lambda *_: Fraction(0))
        assert not PowerBall(f"l{text}").at_most(
            x, 1 + Fraction(109, 100) / Fraction(float(text)), lambda *_: Fraction(0)
        )


LIES = {
    "equal": ["false", ["false"] * 4, [0] * 4, [None] * 4, [False] * 3],
    "plus": [[True] * 4, [0.0] * 4, ["0"] * 4, [99] * 4, [-1] * 4, {}, None],
    "minus": [[0] * 3, [-2] * 4, "0000", None],
    "h": ["1111", [1.0] * 4, [[1]] * 4, ["1"] * 5],
    "labels": ["abcd", [1] * 4, {}],
    "p": ["12", [1, 2], ["1"], [["1"], ["1"]]],
    "multipliers": ["1111", {"0": "1"}, ["1"] * 5],
    "farkas": [[], ""],
    "norm_squared": [1, ["1"]],
    "margin_interval": ["11", [0.1, 0.2], ["0x1p+0"] * 3],
    "table": [["12"] * 4, [["1"], ["1", "2"], ["1"], ["1"]], [[1.0] * 2] * 4, {}],
    "gram": [[["1"]], "1"],
    "right": [[["1"]], ["1"], [["1"], ["1", "2"]]],
    "right_of": [[0] * 4],
    "status": [None, 1, ["certified"]],
    "certificate": [None, {"float": 1}],
    "schema": [1],
    "digest": [None, 1],
    "norm_name": [2, ["l2"], {}],
    "shape": ["12", [2.0, 1.0]],
    "factors": [[], {"left": []}, {"left": [["1"], []], "right": [["1"]]}],
}


@pytest.mark.parametrize("name", LIES)
def test_fields_of_another_type_or_shape_are_refused_before_any_work(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = solve(Constraints.dense(ROWS)).to_dict()
    assert certify(good)["valid"]
    monkeypatch.setattr(module, "_Rows", None)  # what would do the work
    for lie in LIES[name]:
        spoilt = {**good, name: lie}
        found = certify(spoilt if name == "digest" else _signed(spoilt))
        assert not found["valid"], lie
        assert name in found["violations"][0], (lie, found)
        assert "NoneType' object is not callable" not in found["violations"][0]


HOSTILE = {
    # 106 kB: the first row of right has one number, the others have thousands
    "ragged right": lambda good: (
        good
        | {"right": [["1"], *[["1"] * 8_000] * 3], "right_of": [1, 2, 3] * 2_000}
        | {"plus": [0] * 6_000, "minus": [1] * 6_000}
    ),
    "many rows of two tokens": lambda good: (
        good
        | {
            name: [value] * 10_000
            for name, value in (("plus", 0), ("minus", 1), ("h", "1"), ("equal", False))
        }
        | {"labels": [""] * 10_000, "multipliers": ["1"] * 10_000, "table": [["1"] * 1_000, ["2"] * 1_000]}
        | {"p": ["1"] * 1_000}
    ),
    "equalities": lambda good: (
        good
        | {"table": [[str((i * j) % 997) for j in range(300)] for i in range(300)], "p": ["1"] * 300}
        | {"plus": [*range(300)], "minus": [-1] * 300, "h": ["1"] * 300, "equal": [True] * 300}
        | {"labels": [""] * 300, "multipliers": ["1"] * 300}
    ),
    "denominators": lambda good: (
        good
        | {"table": [["1"] * 2] * 200, "plus": [*range(200)], "minus": [-1] * 200, "h": ["1"] * 200}
        | {"equal": [False] * 200, "labels": [""] * 200}
        | {"multipliers": [f"1/{10**4_000 + k}" for k in range(200)]}
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_certificates_end_soon_in_little_memory(name: str, tmp_path: Path, confined: Any) -> None:
    file = tmp_path / "proof.json"
    file.write_text(json.dumps(_signed(HOSTILE[name](solve(Constraints.dense(ROWS)).to_dict()))))
    code = f"from hardmax.margin.certificates import certify; print(certify({str(file)!r})['valid'])"
    assert confined(code) == "False"


def test_the_checker_alone_knows_every_norm_of_the_package() -> None:
    """In a new process, where nothing has imported the norms and registered a ball with them."""
    own = [each for each in REGISTERED.values() if type(each).__module__.startswith("hardmax.")]
    names = sorted({each.name for each in own})
    code = (
        "from hardmax.margin.certificates import ball_of\n"
        f"for name in {names}: assert ball_of({{'norm_name': name, 'shape': [2, 2]}}, None, 4).name == name"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"enter the ball of a new norm in BALLS of certificates.py: {done.stderr}"
