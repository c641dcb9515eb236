"""Tables for other programs hold what the rows hold."""

import csv
import math
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hardmax as hm
from hardmax.trials import results

TASKS = Path(__file__).with_name("tasks.py")


@pytest.fixture(scope="module")
def result():
    made = hm.sweep(f"{TASKS}:rows", {"a": [1, 2.5], "b": [None, "x"]}, 100, workers=0)
    assert 0 < made.failed < made.done
    return made


def test_csv(result, tmp_path):
    result.to_csv(tmp_path / "t.csv")
    with open(tmp_path / "t.csv", newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    names = ["a", "b", "trial", "seed", "status", "x", "even", "count", "word", "nothing", "error"]
    assert list(table[0]) == names
    assert len(table) == 400
    for line, row in zip(table, result.rows(), strict=True):
        assert (line["trial"], line["seed"], line["status"]) == (
            str(row["trial"]),
            str(row["seed"]),
            row["status"],
        )
        assert line["b"] == (row["b"] or "")
        if row["status"] == "failed":
            assert line["error"] == f"RuntimeError: seed {row['seed']} is a multiple of 23"
            assert line["x"] == ""
            continue
        assert float(line["x"]) == row["x"] or (math.isnan(row["x"]) and line["x"] == "nan")
        assert line["even"] == ("true" if row["even"] else "false")
        assert int(line["count"]) == row["seed"]
        assert (line["word"], line["nothing"], line["error"]) == (row["word"], "", "")
    assert list(tmp_path.iterdir()) == [tmp_path / "t.csv"]


def test_parquet(result, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "CHUNK", 150)
    result.to_parquet(tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds == {
        "a": "double",
        "b": "string",
        "trial": "int64",
        "seed": "int64",
        "status": "string",
        "x": "double",
        "even": "bool",
        "count": "int64",
        "word": "string",
        "nothing": "string",
        "error": "string",
    }
    for line, row in zip(table.to_pylist(), result.rows(), strict=True):
        for name in ("a", "b", "trial", "seed", "status", "even", "count", "word", "nothing"):
            assert line[name] == row.get(name)
        x = row.get("x")
        assert line["x"] == x or (math.isnan(line["x"]) and math.isnan(x))
        assert (line["error"] is None) == (row["status"] == "done")


def test_mixed_kinds_are_texts_in_parquet(tmp_path):
    values = [True, 1, "one", None, 2**70]
    made = hm.sweep(lambda p, seed: {"x": values[p["i"]]}, {"i": range(5)}, 1, workers=0)
    made.to_parquet(tmp_path / "t.parquet")
    found = pq.read_table(tmp_path / "t.parquet")["x"].to_pylist()
    assert found == ["true", "1", '"one"', "null", str(2**70)]


def test_a_large_integer_is_text_in_parquet(tmp_path):
    made = hm.sweep(lambda p, seed: {"x": 2**70}, {}, 2, workers=0)
    made.to_parquet(tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet")["x"].to_pylist() == [str(2**70)] * 2


def test_a_failed_export_leaves_the_old_file(result, tmp_path, monkeypatch):
    target = tmp_path / "t.csv"
    target.write_text("old")

    def broken(value):
        raise OSError("disk full")

    monkeypatch.setattr(results, "_cell_text", broken)
    with pytest.raises(OSError, match="disk full"):
        result.to_csv(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_parquet_without_pyarrow_names_the_extra(result, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install ".*\[export\]"'):
        result.to_parquet(tmp_path / "t.parquet")
