"""The shape of the source: no class name twice, no cycle of modules, imports where they can be seen."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Variables named by a participle, such as found, in each package; lower a number when names become nouns.
PARTICIPLES = {
    "app": 7,
    "data": 1,
    "directions": 2,
    "dynamics": 8,
    "embeddings": 1,
    "margin": 17,
    "nexttoken": 2,
    "papers": 24,
    "problem": 10,
    "torch": 2,
}


@pytest.fixture(scope="module")
def house():
    from house import House

    return House(ROOT / "src" / "hardmax")


def test_no_class_name_is_defined_twice(house):
    assert not house.repeated_classes()


def test_no_cycle_of_modules(house):
    assert house.cycles() == []


def test_no_circle_is_hidden_by_imports_in_functions(house):
    assert house.hidden_cycles() == []


def test_imports_inside_functions_load_a_library(house):
    assert house.hidden_imports() == []


def test_the_rule_finds_what_it_is_about(tmp_path):
    from house import House

    package = tmp_path / "hardmax"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "light.py").write_text("import json\n")
    (package / "heavy.py").write_text("import numpy\n")
    inside = "def use():\n    from hardmax import light, heavy\n    from hardmax.light import json\n"
    (package / "user.py").write_text(inside)
    assert House(package).hidden_imports() == [("hardmax.user", "from hardmax.light import json")]


def test_variables_are_named_by_nouns():
    from words import participles

    counts = dict.fromkeys(PARTICIPLES, 0)
    for (package, _), count in participles(ROOT / "src" / "hardmax").items():
        counts[package] = counts.get(package, 0) + count
    above = {name: count for name, count in counts.items() if count > PARTICIPLES.get(name, 0)}
    limits = {name: PARTICIPLES.get(name, 0) for name in above}
    assert above == {}, f"at most {limits}: rename them to nouns; python docs/_tools/words.py --names"
