"""Every statement of the papers as a check on the data at hand: hypotheses, claim, what was measured,
verdict.
"""

from hardmax.theory.check import Check, Hypothesis, Statement, check, checks

__all__ = ["Check", "Hypothesis", "Statement", "check", "checks"]
