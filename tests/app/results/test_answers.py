"""The other answers: the same table, JSON and exit code as their commands, and HTML for a notebook."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pytest

import hardmax as hm
from hardmax._lib.result import Result
from hardmax.app import results
from hardmax.app.results import next_token, next_token_check, sweep
from hardmax.papers.figures import figure
from hardmax.papers.figures.claims import at_least
from hardmax.papers.figures.figure import Findings, recipe
from hardmax.papers.registry import Registry

ROOT = Path(__file__).parents[3]

SVOP = ROOT / "examples" / "svop.txt"
OWN = """
def f(parameters, seed):
    if seed % 3 == 0:
        raise ValueError("no")
    return {"x": seed % 7}
"""
PLAN = 'function = "own.py:f"\ntrials = 6\nseed = 3\n[grid]\nd = [2, 3]\n'


def agree(answer: Result, printed: tuple[int, str], told: tuple[int, str], valid_json) -> None:
    """The answer is what the command printed, and its notebook shows that table."""
    assert printed == (answer.exit_code, f"{answer}\n")
    assert (told[0], json.loads(told[1])) == (answer.exit_code, valid_json(answer))
    shown = re.sub(r"<[^>]+>", "", answer._repr_html_())
    for code, letter in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#x27;", "'"), ("&amp;", "&")):
        shown = shown.replace(code, letter)
    assert shown == f"{answer}\n"


def test_verify(command, valid_json):
    ids = ["B-ASM-B", "B-THM-L9"]
    found = hm.verify(ids)
    agree(found, command("verify", *ids), command("verify", *ids, "--json"), valid_json)
    assert found.exit_code == 0


def test_verify_on_own_data(command, valid_json, tmp_path):
    file = tmp_path / "own.json"
    hm.data.example("B-FIG-1b").save(file)
    found = hm.verify("B-ASM-B", on=file)
    agree(
        found,
        command("verify", "B-ASM-B", "--on", file),
        command("verify", "B-ASM-B", "--on", file, "--json"),
        valid_json,
    )
    assert (found.exit_code, found.checks[0].expected) == (1, None)
    [same] = hm.verify("B-ASM-B", on=hm.data.example("B-FIG-1b")).checks
    assert (same.check.verdict, same.check.witness) == ("fails", found.checks[0].check.witness)
    with pytest.raises(ValueError, match="ids must name at least one statement"):
        hm.verify(on=hm.data.example("B-FIG-1b"))
    with pytest.raises(ValueError, match=r"unknown statement 'B-ASM-BB'\. Did you mean B-ASM-B "):
        hm.verify("B-ASM-BB")


def test_certify(command, valid_json, tmp_path):
    file = tmp_path / "proof.json"
    hm.max_margin(hm.data.example("B-FIG-8"), [0, 0], exact=True).save(file)
    found = hm.certify(file)
    agree(found, command("certify", file), command("certify", file, "--json"), valid_json)
    assert found == hm.certify(json.loads(file.read_text())) == hm.certify(str(file))
    changed = {**json.loads(file.read_text()), "status": "infeasible"}
    file.write_text(json.dumps(changed))
    found = hm.certify(file)
    assert (found.valid, found.exit_code, found.what) == (False, 1, "nothing")
    agree(found, command("certify", file), command("certify", file, "--json"), valid_json)
    with pytest.raises(ValueError, match=r"certificate must be the name of a file .* got MaxMargin"):
        hm.certify(hm.max_margin(hm.data.example("B-FIG-8"), [0, 0]))
    with pytest.raises(ValueError, match="is not a certificate"):
        hm.certify(ROOT / "examples" / "opposed.json")


@pytest.mark.parametrize("measured", [0.99, 0.5])
def test_reproduce(measured, command, valid_json, tmp_path, monkeypatch):
    monkeypatch.setattr(figure, "RECIPES", Registry("figure", {}))
    findings = Findings({"t": {"x": np.arange(2)}}, (at_least("B-FIG-90.cos", "a < [b]", measured, 0.9),))
    recipe("B-FIG-90", "a title", draw=lambda tables, canvas: None)(lambda setting: findings)
    found = hm.reproduce(["B-FIG-90"], out=tmp_path)
    printed = command("reproduce", "B-FIG-90", "--out", tmp_path)
    assert printed == (found.exit_code, f"{found}\n") == (int(measured < 0.9), printed[1])
    [told] = valid_json(found)["figures"]
    _, again = command("reproduce", "B-FIG-90", "--out", tmp_path, "--json")
    assert {**json.loads(again)["figures"][0], "seconds": told["seconds"]} == told
    assert all(os.path.exists(file) for file in told["files"])
    assert "a &lt; [b]" in found._repr_html_()


@pytest.mark.parametrize("options, arguments", [({}, []), ({"repair": True}, ["--repair"])])
@pytest.mark.parametrize("lines", ["S V O P\nV O P\nO P P\nP S V\n", "A <B> A\n<B> C\nC A\nA <B> B\n"])
def test_ntp_check(lines, options, arguments, command, valid_json, tmp_path):
    file = tmp_path / "words.txt"
    file.write_text(lines)
    found = next_token_check.check(file, **options)
    agree(
        found,
        command("ntp", "check", file, *arguments),
        command("ntp", "check", file, *arguments, "--json"),
        valid_json,
    )
    given = next_token_check.check(lines.splitlines(), **options)
    assert given.analysis.violations == found.analysis.violations


def test_ntp_check_saves_the_realizable_part(command, valid_json, tmp_path):
    file, part, again = tmp_path / "words.txt", tmp_path / "part.txt", tmp_path / "again.txt"
    file.write_text("A B A\nB C\nC A\n")
    found = next_token_check.check(file).save(part)
    code, told = command("ntp", "check", file, "--save-realizable", again, "--json")
    assert code == found.exit_code == 1
    assert part.read_text() == again.read_text()
    assert {**json.loads(told), "saved": str(part)} == valid_json(found)
    none = next_token_check.check(["a b", "a c"])
    assert none.part is not None
    assert none.part.samples == 0
    with pytest.raises(ValueError, match="the realizable part is empty"):
        none.save(part)


def test_ntp_generate(command, valid_json):
    found = next_token.generate_file(vocabulary=30, rng=4, assumption3=False, max_length=12)
    arguments = ["--vocabulary", "30", "--seed", "4", "--no-assumption3", "--max-length", "12"]
    agree(
        found,
        command("ntp", "generate", *arguments),
        command("ntp", "generate", *arguments, "--json"),
        valid_json,
    )


def test_ntp_train_and_predict(command, valid_json, tmp_path):
    model = tmp_path / "model.npz"
    found = next_token.train_file(SVOP, model, steps=50, rate=0.1)
    own = model.read_bytes()
    arguments = ["ntp", "train", SVOP, "--out", model, "--steps", "50", "--rate", "0.1"]
    agree(found, command(*arguments), command(*arguments, "--json"), valid_json)
    assert model.read_bytes() == own
    told = next_token.predict_next(model, "O S P")
    asked = ["ntp", "predict", model, "O S P"]
    agree(told, command(*asked), command(*asked, "--json"), valid_json)
    longer = next_token.train_file(SVOP, model, steps=80, rate=0.1, resume=True)
    assert (
        longer.json()["loss"] == next_token.train_file(SVOP, tmp_path / "b.npz", steps=80, rate=0.1).run.loss
    )
    assert (
        next_token.train_file(SVOP, tmp_path / "c.npz", stage1=1, steps=1)
        .remarks[-1]
        .startswith("after 1 steps")
    )
    with pytest.raises(ValueError, match="not realizable"):
        next_token.train_file(["A B", "A C"], model)


def test_sweep(command, valid_json, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "own.toml").write_text(PLAN)
    code, told = command("sweep", "own.toml", "--json")
    store = json.loads(told)["store"]
    found = hm.Sweep.open(store)
    shown = sweep.SweepResult.of_sweep(found, store=store, command="hardmax sweep own.toml")
    seconds = {"seconds": 0.0}
    assert (code, json.loads(told) | seconds) == (shown.exit_code, valid_json(shown) | seconds)
    _, printed = command("sweep", "own.toml")
    assert re.sub(r"[0-9.]+ s;", "S;", printed) == re.sub(r"[0-9.]+ s;", "S;", f"{shown}\n")
    assert str(hm.Sweep.open(store)).splitlines()[:3] == str(shown).splitlines()[:3]  # the table
    failed, done = found.failed, found.done
    assert (failed > 0, failed + done) == (True, 12)
    each = next(found.failures())
    alone = sweep.TrialResult.run(found, each.cell, each.trial, "own.py:f", store=store)
    which = f"{each.cell}:{each.trial}"
    agree(
        alone,
        command("sweep", "own.toml", "--trial", which),
        command("sweep", "own.toml", "--trial", which, "--json"),
        valid_json,
    )
    assert (alone.error, alone.exit_code, alone.row) == ("ValueError: no", 1, None)
    assert "own.py" in alone.trace


def test_every_answer_is_a_frozen_dataclass_with_a_schema_of_its_own():
    modules = [import_module(f"{results.__name__}.{each.name}") for each in iter_modules(results.__path__)]
    found = [each for module in modules for each in vars(module).values()]
    kinds = [each for each in found if isinstance(each, type) and issubclass(each, Result) and each != Result]
    for kind in kinds:
        assert kind.__dataclass_params__.frozen
        assert re.fullmatch(r"hardmax\.[a-z-]+/\d", kind.schema)
    files = {
        path.name.removesuffix(".schema.json")
        for path in (ROOT / "docs" / "reference" / "schemas").glob("*.json")
    }
    # play serves until it is ended: its line is that of the server; audit returns what hm.torch.audit does
    elsewhere = {"audit", "error", "play"}
    assert {kind.schema[8:-2] for kind in kinds} == files - elsewhere
    with pytest.raises(dataclasses.FrozenInstanceError):
        hm.verify("B-ASM-B").checks = ()


def test_importing_the_answers_is_light():
    code = (
        "import hardmax.app.results, sys;"
        "print([m for m in ('numpy', 'scipy', 'numba', 'matplotlib', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
