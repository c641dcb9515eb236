"""`hardmax certify`: valid, not valid, unreadable."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hardmax import cli
from hardmax.data import named
from hardmax.margin.attention import max_margin

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "certify.schema.json").read_text())


@pytest.fixture
def certify(capsys):
    def run(file, *options):
        code = cli.run(["certify", str(file), *options])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def proof(tmp_path):
    file = tmp_path / "proof.json"
    max_margin(named("B-FIG-8"), [0, 0], exact=True).save(file)
    return file


def test_valid(certify, proof):
    code, out, err = certify(proof, "--json")
    answer = json.loads(out)
    jsonschema.validate(answer, SCHEMA)
    assert (code, err) == (0, "")
    assert (answer["valid"], answer["violations"]) == (True, [])
    assert answer["what"] == "p is the minimum-norm solution, |p|^2 = 10"
    proof.write_bytes(b"\xef\xbb\xbf" + proof.read_bytes())  # as some editors save it
    assert certify(proof)[1] == "valid: p is the minimum-norm solution, |p|^2 = 10\n"


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
