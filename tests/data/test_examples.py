"""Examples by name: each is made, listed with a line, and read by the command."""

import json

import numpy as np
import pytest

import hardmax as hm
from hardmax.app.cli import run


def test_every_listed_example_is_made():
    listed = hm.data.examples()
    assert {"two-inputs", "three-inputs", "opposed", "saddle", "queries"} <= listed.keys()
    assert len(str(listed).splitlines()) == len(listed)
    for name, line in listed.items():
        assert hm.data.example(name).n >= 1
        assert 20 < len(line) < 90
    assert repr(listed) == f"Examples({len(listed)} names)"


@pytest.mark.parametrize(
    "old, name", [("B-FIG-8", "two-inputs"), ("B-FIG-1a", "triangle"), ("B-FIG-3b", "readout-slack")]
)
def test_ids_of_figures_stay(old, name):
    ours, theirs = hm.data.example(old), hm.data.example(name)
    np.testing.assert_array_equal(ours.keys, theirs.keys)
    np.testing.assert_array_equal(ours.scores, theirs.scores)


def test_queries_are_those_of_part_d():
    problem = hm.data.example("w33", "correlation")
    assert problem.loss.name == "correlation"
    assert (problem.n, problem.d) == (3, 9)


def test_near_names_are_suggested():
    with pytest.raises(ValueError, match=r"unknown example 'two-input'. Did you mean 'two-inputs'\?"):
        hm.data.example("two-input")


def test_a_name_that_is_neither_example_nor_file_is_refused_with_the_examples(capsys):
    assert run(["solve", "two"]) == 2
    message = capsys.readouterr().err
    assert "no example and no file is called 'two'" in message
    assert "Did you mean 'two-inputs' or 'two-scc'?" in message
    assert "files of problems end in .json, .npz or .csv" in message
    with pytest.raises(FileNotFoundError, match="three-inputs"):
        hm.solve("nothing-of-this-kind")


def test_every_name_that_is_suggested_is_found():
    with pytest.raises(FileNotFoundError, match=r"Did you mean 'B-FIG-8'\?"):
        hm.solve("B-FIG-88")
    assert hm.solve("B-FIG-8").problem.keys.tolist() == hm.data.example("two-inputs").keys.tolist()


def test_solve_takes_the_name_of_an_example(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["solve", "three-inputs", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [each["selection"] for each in answer["selections"]] == [
        list(each.selection) for each in hm.solve("three-inputs").selections
    ]
