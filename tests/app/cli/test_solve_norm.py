"""`hardmax solve --norm`: which selections attract in another norm, by contract, and its mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hardmax as hm
from hardmax.app import cli

ORACLES = Path(__file__).parents[2] / "oracles" / "paper-d-oracles.json"
SPACE_B = json.loads(ORACLES.read_text())["vector"]["space-b"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "space-b.json"
    path.write_text(json.dumps({"keys": SPACE_B["keys"], "scores": SPACE_B["scores"]}))
    return path


@pytest.mark.parametrize("norm", ["l1", "l1.5", "l3", "linf"])
def test_selections_are_those_of_the_oracle(file, norm, capsys, validated):
    code = cli.run(["solve", str(file), "--json", "--all", "--norm", norm])
    answer = validated(capsys.readouterr().out)
    assert answer["norm_name"] == norm
    known = {tuple(s["selection"]): s["norms"][norm] for s in SPACE_B["selections"] if s["feasible"]}
    found = {tuple(s["selection"]): s for s in answer["selections"]}
    assert found.keys() == known.keys()
    for chosen, truth in known.items():
        said = found[chosen]
        assert 1 / said["norm"] == pytest.approx(truth["margin"], rel=1e-12)
        assert said["locally_optimal"] == {"strong": True, "no": False, "weak": None}[truth["local"]]
        assert (said["status"] == "weak") == (truth["local"] == "weak")
    weak = any(truth["local"] == "weak" for truth in known.values())
    assert (code, answer["status"]) == ((3, "truncated") if weak else (0, "complete"))
    assert all(each["feasible"] for each in answer["global"])


def test_table_and_certificates_say_the_norm(file, tmp_path, capsys):
    assert cli.run(["solve", str(file), "--norm", "l1", "--certificates", str(tmp_path / "proofs")]) == 3
    shown = capsys.readouterr().out
    assert "p is shortest in the norm l1, and margins are in this norm" in shown
    assert "weak" in shown
    proofs = sorted((tmp_path / "proofs").iterdir())
    assert proofs
    for proof in proofs:
        assert cli.run(["certify", str(proof)]) == 0
        assert "p is a solution of least l1 norm" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--norm", "l0.5"], "norm must be a power above 1, got 'l0.5'"),
        (["--norm", "manhattan"], 'norm must be "l1", "l2", "linf"'),
        (["--norm", "nuclear"], "norm must be one of vectors for a p of shape (3,), got 'nuclear'"),
        (["--norm", "l3", "--exact"], "exact must be False with norm 'l3'"),
        (["--norm", "l1", "--critical"], "--critical supports only norm l2"),
    ],
)
def test_mistakes(file, options, sentence, capsys):
    assert cli.run(["solve", str(file), *options]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_exact_and_python(file):
    found = hm.solve(file, norm="linf", exact=True)
    assert found.norm == "linf"
    assert {each.max_margin.arithmetic for each in found.selections} == {"exact"}
    strong = next(each for each in found.selections if each.attracts.verdict)
    with pytest.raises(ValueError, match="max_margin must be in l2, got linf; leave norm out of max_margin"):
        hm.directions.direction.local_constants(found.problem, strong.max_margin)


def test_the_flow_is_that_of_the_norm() -> None:
    found = hm.solve(hm.data.example("skew"), norm="l3", flow=True)
    assert found.flow.path.norm == "l3"
    assert found.flow.misalignment < 1e-9
    with pytest.raises(ValueError, match=r"Sign\(rate, decay=0.5\)"):
        hm.solve(hm.data.example("skew"), norm="linf", flow=True)
