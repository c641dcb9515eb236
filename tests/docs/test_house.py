"""The shape of the source: no class name twice, no cycle of modules, imports where they can be seen."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# `TwoLayer` is public in embeddings and in torch; the checker of certificates is independent of the norms on
# purpose, and has its own `Power` and `OfMatrix`.
REPEATED = {"OfMatrix", "Power", "TwoLayer"}

# Where imports are hidden in functions although they load no library of others, and why.
HIDDEN = {"text.classifier": "a model reads, writes and explains itself, and the reader makes models"}

# Modules that would import each other in a circle, were it not for imports inside functions.
CIRCLES = [
    {"papers.max_margin.figures.vision.figures", "papers.max_margin.figures.vision.training"},  # PyTorch
    {"text.classifier", "text.model_file"},
]
REBUILT = ("dynamics",)  # circles through them go when training has one core


@pytest.fixture(scope="module")
def house():
    from house import House

    return House(ROOT / "src" / "hardmax")


def test_no_class_name_is_defined_twice(house):
    assert {*house.repeated_classes()} <= REPEATED


def test_no_cycle_of_modules(house):
    assert house.cycles() == []


def test_circles_hidden_by_imports_in_functions_are_listed(house):
    found = [{name.removeprefix("hardmax.") for name in group} for group in house.hidden_cycles()]
    others = [group for group in found if not any(name.startswith(REBUILT) for name in group)]
    assert [group for group in others if group not in CIRCLES] == []


def test_imports_inside_functions_load_a_library_or_are_listed(house):
    hidden = [(module.removeprefix("hardmax."), line) for module, line in house.hidden_imports()]
    unlisted = [
        (module, line)
        for module, line in hidden
        if not any(f"{module}.".startswith(f"{each}.") for each in HIDDEN)
    ]
    assert unlisted == []


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
