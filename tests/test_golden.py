"""The stored golden pack: this tree answers a sample of questions as 0.2 did (`tools/golden.py`)."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACK = ROOT / "tests" / "golden-0.2.json.gz"


def load():
    spec = importlib.util.spec_from_file_location("golden", ROOT / "tools" / "golden.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


golden = load()


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("part", golden.BUDGET)
def test_the_stored_answers_are_repeated(part, monkeypatch):
    monkeypatch.chdir(ROOT)
    same_questions, table = golden.compare_stored(golden.read(PACK), part)
    assert same_questions, "numpy draws other random numbers than when the pack was stored"
    assert sum(count for count, _, _ in table.values()) > 50
    assert {quantity: failed[:5] for quantity, (_, _, failed) in table.items() if failed} == {}


def test_the_pack_is_small():
    assert PACK.stat().st_size < 3_000_000


@pytest.mark.parametrize(
    "old, new, rule, allowed",
    [
        (1.0, 1.0, "bit", True),
        (1.0, 1.0 + 2e-16, "bit", False),
        ([1.0, 1e-14], [1.0, 2e-14], 1e-12, True),
        ([1.0, 0.5], [1.0, 0.5 + 1e-11], 1e-12, False),
        ("holds", "fails", 1e-9, False),
        ([0, 1], [0, 2], 1e-9, False),
        (None, 0.0, 1e-9, False),
        ({"a": 1}, {"a": 1, "b": 2}, "exact", True),
        ({"a": 1, "b": 2}, {"a": 1}, "exact", False),
        ([1.0, 2.0], [1.5, 2.5], "overlap", True),
        ([1.0, 2.0], [2.1, 2.5], "overlap", False),
        ([1.0, 2.0], [1.0, 4.0], "overlap", False),
    ],
)
def test_differences(old, new, rule, allowed):
    assert golden.difference(old, new, rule, by_list=True)[1] is allowed


def test_a_changed_answer_is_noticed():
    pack = golden.read(PACK)
    key = next(key for key, answer in pack["answers"].items() if "selection" in answer)
    old = {key: pack["answers"][key]}
    moved = {key: old[key] | {"selection": [[9]]}}
    assert [row[2] for row in golden.compare(old, moved, golden.RULES["stored"]).values() if row[2]] == [
        [f"{key} selection"]
    ]
