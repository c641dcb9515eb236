"""What the tests of the three papers' statements share."""

from collections.abc import Callable
from typing import Any

import pytest

from hardmax.papers.checking.instances import instances


@pytest.fixture
def flips(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Whether a wrong formula changes the verdict on one instance of a statement."""

    def run(id: str, name: str, module: Any, formula: str, mutant: Any) -> bool:
        (instance,) = (each for each in instances([id]) if each.name == name)
        assert hasattr(module, formula)
        monkeypatch.setattr(module, formula, mutant)
        return instance.run().verdict != instance.expected

    return run
