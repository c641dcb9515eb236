"""`hardmax certify`: valid, not valid, unreadable."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hardmax.app import cli
from hardmax.data import example
from hardmax.margin.att_svm import max_margin

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "reference" / "schemas" / "certify.schema.json").read_text()
)


@pytest.fixture
def certify(capsys):
    def run(file, *options):
        code = cli.run(["certify", str(file), *options])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def proof(tmp_path):
    file = tmp_path / "proof.json"
    max_margin(example("B-FIG-8"), [0, 0], exact=True).save(file)
    return file


def test_valid(certify, proof):
    code, out, err = certify(proof, "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, SCHEMA)
    assert (code, err) == (0, "")
    assert (answer["valid"], answer["violations"]) == (True, [])
    assert answer["what"] == "p is the minimum-norm solution, |p|^2 = 10"
    proof.write_bytes(b"\xef\xbb\xbf" + proof.read_bytes())  # as some editors save it
    first, second, *_ = certify(proof)[1].splitlines()
    assert first == "valid: p is the minimum-norm solution, |p|^2 = 10"
    assert second.startswith("not checked: labels: ")


def test_not_valid(certify, proof):
    content = json.loads(proof.read_text())
    content["p"] = ["1", "2"]
    proof.write_text(json.dumps(content))
    code, out, _ = certify(proof, "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, SCHEMA)
    assert code == 1
    assert not answer["valid"]
    assert any("digest" in violation for violation in answer["violations"])
    assert any("p violates" in violation for violation in answer["violations"])
    assert certify(proof)[1].startswith("not valid:\n")


def test_a_cut_certificate_is_not_valid(certify, proof):
    proof.write_text('{"schema": "hardmax.certificate/1"}')
    code, out, _ = certify(proof, "--json")
    jsonschema.validate(json.loads(out), SCHEMA)
    assert code == 1


@pytest.mark.parametrize("content", ["nonsense", "[1, 2]", '{"keys": []}', "\xff", "[" * 100_000])
def test_unreadable(certify, proof, content, validated):
    proof.write_bytes(content.encode("latin-1"))
    code, out, err = certify(proof, "--json")
    assert (code, f"hardmax: {validated(out)['error']}\n") == (2, err)
    assert "certificate" in err
    assert err.count("\n") == 1


def test_missing(certify, tmp_path):
    code, out, err = certify(tmp_path / "absent.json")
    assert (code, out) == (2, "")
    assert "absent.json" in err


@pytest.mark.parametrize(
    "number", ["1e9999999", "-1e-9999999", "1E+99999999999999999999", "1e" + 5_000 * "9"]
)
def test_a_number_of_a_million_digits_is_not_expanded(certify, proof, number):
    content = json.loads(proof.read_text())
    for name in ("p", "h", "multipliers"):
        changed = content | {name: [number, *content[name][1:]]}
        proof.write_text(json.dumps(changed))
        code, out, _ = certify(proof, "--json")
        answer = json.loads(out)
        jsonschema.validate(answer, SCHEMA)
        assert (code, answer["valid"]) == (1, False)
        assert "expected numbers of at most 4,300 digits" in answer["violations"][0]


def test_rows_that_would_fill_the_memory_are_not_made(certify, proof):
    content = json.loads(proof.read_text())
    content |= {"plus": [0] * 100_000, "minus": [1] * 100_000, "table": [["1"] * 1_000] * 2}
    content |= {name: [content[name][0]] * 100_000 for name in ("h", "equal", "labels", "multipliers")}
    proof.write_text(json.dumps(content))
    assert "rows of at most 10,000,000 numbers" in " ".join(certify(proof)[1].split())


def test_json_nested_beyond_reason(certify, proof):
    proof.write_text('{"schema": ' + 100_000 * "[" + 100_000 * "]" + "}")
    code, out, err = certify(proof)
    assert (code, out) == (2, "")
    assert "not valid JSON: it is nested too deeply" in err
