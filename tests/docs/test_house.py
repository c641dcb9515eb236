"""The shape of the source: no class name twice, no cycle of modules, imports where they can be seen."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# `TwoLayer` is public in embeddings and in torch; `_Block` goes with the old core of training; the checker of
# certificates is independent of the norms on purpose, and has its own `Power` and `OfMatrix`. `Model` of
# nexttoken, `Following` and `Layout` change with the core of training.
REPEATED = {"Following", "Layout", "Model", "OfMatrix", "Power", "TwoLayer", "_Block"}

# Where imports are hidden in functions although they load no library of others, and why.
HIDDEN = {
    "app": "a command imports what it needs and no more",
    "dynamics": "its parts are being joined",
    "margin": "its parts are being joined",
    "problem.problem": "a problem reads and writes itself, and the reader makes problems",
    "text.classifier": "a model reads, writes and explains itself, and the reader makes models",
    "torch": "what is missing is told when it is asked for",
}

# Modules that would import each other in a circle, were it not for imports inside functions.
CIRCLES = [
    {"_lib.annotations", "_lib.arguments"},
    {"_lib.caching", "_lib.compiling"},  # the cache warns, and the warning names the cache
    {"papers.max_margin.figures.vision.figures", "papers.max_margin.figures.vision.training"},  # PyTorch
    {"problem", "problem.files", "problem.problem"},
    {"text.classifier", "text.model_file"},
]
REBUILT = ("dynamics", "margin")  # circles through them go when training has one core
# `corpus.model(d)` and `samples.model()` make models, which are made of corpora and samples.
MODELS = [{"data.corpora.corpus", "embeddings.models"}, {"data.sentences.samples", "nexttoken.models"}]


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
    others = [group for group in others if not any(group >= pair for pair in MODELS)]
    assert [group for group in others if group not in CIRCLES] == []


def test_imports_inside_functions_load_a_library_or_are_listed(house):
    hidden = [(module.removeprefix("hardmax."), line) for module, line in house.hidden_imports()]
    places = {each for each in HIDDEN for module, _ in hidden if f"{module}.".startswith(f"{each}.")}
    unlisted = [
        (module, line)
        for module, line in hidden
        if not any(f"{module}.".startswith(f"{each}.") for each in HIDDEN)
    ]
    assert unlisted == []
    assert places >= {"app", "problem.problem"}, "the rule finds what it is about"
