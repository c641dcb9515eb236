"""What `solve` and `ntp check` say of data that do not separate: what stays finite, what diverges."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import hardmax as hm
from hardmax.app import cli

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "reference" / "schemas" / "solve.schema.json").read_text()
)


@pytest.fixture
def solved(tmp_path, capsys):
    def run(problem, *options):
        problem.save(tmp_path / "problem.json")
        code = cli.run(["solve", str(tmp_path / "problem.json"), *options])
        return code, capsys.readouterr().out

    return run


def test_log_loss_on_file(solved, oracles):
    code, out = solved(hm.data.example("two-scc"), "--json")
    answer, expected = json.loads(out), oracles["d"]["nonseparable"]["two-scc"]
    jsonschema.validate(answer, SCHEMA)
    found = answer["decomposition"]
    assert (code, answer["status"]) == (0, "complete")
    assert (found["scope"], found["kind"], found["status"]) == ("global", "mixed", "certified")
    assert [each["row"] for each in found["bound"]] == expected["rows_equal"]
    assert found["separable"] == expected["rows_separable"]
    assert found["dimension"] == expected["dim_S"]
    np.testing.assert_allclose(found["p_fin"], expected["p_fin"], atol=1e-13)
    np.testing.assert_allclose(found["p_mm"], expected["p_mm"], atol=1e-13)
    assert found["inf_risk"] == pytest.approx(expected["inf_risk"], abs=1e-13)


def test_what_is_printed(solved):
    code, out = solved(hm.data.example("cycle"))
    assert code == 0
    assert "their rows: 4 bound, 1 separable (certified). Training from any start" in out
    assert "p_fin = +0.5493 -0.5493 +0.0000" in out
    assert "drives the rest to infinity along +0.4082 +0.4082 -0.8165" in out


def test_scores_are_local_and_separable_data_have_none(solved):
    opposed = hm.Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1, 0], [2, 0]])
    answer = json.loads(solved(opposed, "--json")[1])
    jsonschema.validate(answer, SCHEMA)
    found = answer["decomposition"]
    assert (found["scope"], found["kind"], found["p_fin"], found["p_mm"]) == ("local", "bounded", None, None)
    assert "decomposition" not in json.loads(solved(hm.data.example("B-FIG-8"), "--json")[1])


def test_sentences(tmp_path, capsys):
    file = tmp_path / "file.txt"
    file.write_text("A B B\nC A B C\nB C\n")
    assert cli.run(["ntp", "check", str(file)]) == 1
    out = capsys.readouterr().out
    assert "keeps these tokens at finite distances:\n  under B: A, B\n" in out.replace(
        "finite\n  d", "finite d"
    )
