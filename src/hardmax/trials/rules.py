"""The step rule of a trial, from the scalars of its cell: rule = "Adam", rate = 0.1, betas = "0.9 0.99"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hardmax.train.steps import Normalized, Step
from hardmax.train.steps.text import RULES as ALL

# Rules of matrices are left out: the experiments draw keys of a vector p.
RULES = {name: rule for name, rule in ALL.items() if name not in ("Spectral", "Muon")}
RATE = 1.0  # where none is given, as in B-FIG-9
STEP = Normalized(RATE)


def rule_parameters(name: Any) -> tuple[str, ...]:
    """The parameters that a rule has, by its name.

    >>> from hardmax.trials.rules import rule_parameters
    >>> rule_parameters("Mirror")
    ('rate', 'decay', 'power', 'normalized')
    """
    if name not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {name!r:.60}; choose one of these")
    return tuple(each.name for each in fields(RULES[name]))


def rule_of(parameters: Mapping[str, Any]) -> Step:
    """The rule that a cell asks for; normalised gradient descent by default.

    >>> from hardmax.trials.rules import rule_of
    >>> rule_of({"experiment": "sphere", "rule": "Adam", "rate": 0.01, "betas": "0.9 0.99"})
    Adam(rate=0.01, decay=0.0, betas=(0.9, 0.99), epsilon=1e-08)
    """
    name = parameters.get("rule", "Normalized")
    given = {each: parameters[each] for each in rule_parameters(name) if each in parameters}
    if isinstance(given.get("betas"), str):
        try:
            given["betas"] = tuple(float(word) for word in given["betas"].split())
        except ValueError:
            raise ValueError(f"betas must be two numbers in one text, got {given['betas']!r:.60}") from None
    try:
        return RULES[name](**{"rate": RATE, **given})
    except TypeError:
        missing = [
            each for each in rule_parameters(name) if each not in given and each not in ("rate", "decay")
        ]
        raise ValueError(f"rule {name} needs {', '.join(missing)}; give it beside the rule") from None
