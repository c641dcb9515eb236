"""The page of JSON schemas: it is up to date, and the Python attributes that it names exist."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest

import hardmax as hm
from hardmax.app.playground.export import ExportedPage
from hardmax.app.results import doctor

ROOT = Path(__file__).parents[2]
SVOP = ["S V O P", "V O P", "O P P", "P S V"]
TORN = ["A B A", "B C", "C A"]
TEXTS = [("a good film", "+"), ("a bad film", "-")] * 20


@pytest.fixture(scope="module")
def pages():
    sys.path.insert(0, str(ROOT / "docs" / "_tools"))
    try:
        import schema_pages
    finally:
        sys.path.pop(0)
    return schema_pages


def test_the_page_is_up_to_date(pages):
    """To write it again: python docs/_tools/schema_pages.py."""
    assert (pages.FOLDER / "index.md").read_text(encoding="utf-8") == pages.page()
    assert {f"{name}.schema.json" for name in pages.SECTIONS} == {p.name for p in pages.FOLDER.glob("*.json")}
    for name, own in pages.ATTRIBUTES.items():
        assert {*own} <= {*pages.fields(name)}, name


def test_every_schema_is_one(pages):
    """Other tests trust the schemas that they hold answers against."""
    for path in pages.FOLDER.glob("*.schema.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.validators.validator_for(schema).check_schema(schema)


def solved():
    keys = [[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0]]]
    problem = hm.Problem(keys, [[1.0, 0.0, 0.0], [1.0, 0.0]])
    inside = hm.Problem([[[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]], [[1.0, 0.0, 0.0]])
    return [hm.solve(problem, flow=True, critical=True), hm.solve(inside)]


def swept(folder):
    file = folder / "own.toml"
    (folder / "own.py").write_text(
        "def toss(p, seed):\n    return {'odd': bool(1 % p['d']), 'x': 1.0 * seed}\n"
    )
    file.write_text('function = "own.py:toss"\ntrials = 3\nworkers = 1\n[grid]\nd = [0, 2]\n')
    return [hm.trials.sweep_file(file), hm.trials.sweep_file(file, trial="0:1")]


RESULTS = {
    "certify": lambda folder: [hm.certify(hm.max_margin(hm.data.example("B-FIG-8"), [0, 0]).to_dict())],
    "doctor": lambda folder: [doctor.DoctorReport((doctor.cores(),))],
    "hunt": lambda folder: [hm.hunt("margin <= 3", tries=2, workers=0)],
    "ledger": lambda folder: [hm.ledger()],
    "list": lambda folder: [hm.statements("theorem 3")],
    "ntp-check": lambda folder: [hm.nexttoken.check(SVOP), hm.nexttoken.check(TORN)],
    "ntp-generate": lambda folder: [hm.nexttoken.generate_file(vocabulary=5)],
    "ntp-train": lambda folder: [hm.nexttoken.train_file(SVOP, folder / "model.npz", steps=9)],
    "ntp-predict": lambda folder: [hm.nexttoken.predict_next(trained(folder), "O S P")],
    "play": lambda folder: [hm.playground.Serving("http://x", "x", 1), ExportedPage("page.html", 9)],
    "reproduce": lambda folder: [hm.reproduce("B-FIG-1b", out=folder)],
    "solve": lambda folder: solved(),
    "sweep": swept,
    "text-explain": lambda folder: [hm.text.explain(fitted().classifier, "how good!")],
    "text-important": lambda folder: [hm.text.important(fitted().classifier)],
    "text-train": lambda folder: [fitted()],
    "verify": lambda folder: [hm.verify("B-ASM-B"), hm.verify("B-THM-2", on=hm.data.example("B-FIG-8"))],
}


def trained(folder):
    return hm.nexttoken.train_file(SVOP, folder / "model.npz", steps=9).run.predictor


def probed(folder):
    import torch

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return [hm.probe(layer, torch.randn(6, 5, 8), null=19, queries=8, workers=1)]


def audited(folder):
    return [hm.torch.audit(hm.torch.scaled_dot_product_attention, ["float32"], regimes=["base"])]


EXTRA = {"audit": audited, "probe": probed}


def fitted():
    return hm.text.train_classifier(TEXTS, held_out=0.5)


def values(pages, name, path, result):
    """Return all values of a field of a result, by the attributes of the page."""
    parent, _, _ = path.rpartition(".")
    own = pages.attribute(name, path)
    above = [result]
    if parent and not own.startswith("result."):
        above = values(pages, name, parent.rstrip("[]{}"), result)
        if parent.endswith(("[]", "{}")):
            above = [each for one in above if one is not None for each in elements(one)]
    own = own.removeprefix("result.")
    dot = "" if own.startswith(("[", "(")) else "."
    return [eval(f"x{dot}{own}", {"x": each}) for each in above if each is not None]


def elements(value):
    if isinstance(value, Mapping):
        return [*value.values()]
    return [*value] if isinstance(value, (list, tuple, hm.Selection)) else [value]


def is_absent(path, data):
    """Return whether the JSON has no value of a field, or an empty one above it."""
    names = path.replace("[]", "").replace("{}", "").split(".")
    nodes = [data]
    for name in names:
        nodes = [node[name] for node in nodes if isinstance(node, dict) and name in node]
        nodes = [inner for node in nodes for inner in (node if isinstance(node, list) else [node])]
    return not [node for node in nodes if node is not None]


@pytest.mark.parametrize("name", [*RESULTS, *(pytest.param(each, marks=pytest.mark.extra) for each in EXTRA)])
def test_attributes_exist(name, pages, tmp_path):
    results = (RESULTS | EXTRA)[name](tmp_path)
    for path in pages.fields(name):
        holders = [each for each in results if not is_absent(path, each.json())]
        for result in holders if path not in ("schema", "version") else ():
            assert values(pages, name, path, result), path
