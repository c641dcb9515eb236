"""Every statement of the papers as a check on the data at hand, and what a check is made of."""

from hardmax.papers.checking.check import (
    Check,
    Hypothesis,
    Outcome,
    Statement,
    check_statement,
    checks,
    statement,
)

__all__ = ["Check", "Hypothesis", "Outcome", "Statement", "check_statement", "checks", "statement"]
