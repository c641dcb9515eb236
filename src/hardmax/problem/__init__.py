"""The problem: keys, tokens with multiplicities, inputs, and a readout that scores them."""

from hardmax.problem.problem import Problem, need_problem

__all__ = ["Problem", "need_problem"]
