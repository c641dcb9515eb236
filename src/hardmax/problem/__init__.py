"""The problem: keys, tokens with multiplicities, inputs, and a head that scores them."""

from hardmax.problem.problem import Problem

__all__ = ["Problem"]
