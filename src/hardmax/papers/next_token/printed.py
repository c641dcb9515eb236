"""The bounds of the next-token paper as printed, each in one place; stars are norms of W_ov*, W_kq*."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hardmax.problem.readouts import best_loss

MAIN, APPENDIX = 5, 12  # Proposition 1's constant in the main text and in the appendix


@dataclass(frozen=True)
class TextSizes:
    """V tokens, N distinct sentences, L_max, and |W_kq*|."""

    V: int
    N: float
    L: int
    star: float

    @property
    def star_ov(self) -> float:
        """|W_ov*|."""
        return math.sqrt(self.V - 1)


def proposition_1(sizes: TextSizes, t: float, rate: float, constant: int = MAIN) -> float:
    """Return the bound of Proposition 1 on 1 - cos(W_ov, W_ov*)."""
    return constant * sizes.star_ov**3 * math.log(2 * sizes.V) * math.log(t) / (t * rate)


def margin_scale(sizes: TextSizes, T: float, rate: float) -> float:
    """Delta of Corollary 1, whose margins lie, by its claim, between it and three times it."""
    return T * rate / (4 * sizes.star_ov**2)


def steps_asked_of_stage_1(sizes: TextSizes, rate: float) -> float:
    """The least T of Corollary 1 and Theorem 2: T >= 384 |W_ov*|^5 log(2V) log T/eta0."""
    return first_time(384 * sizes.star_ov**5 * math.log(2 * sizes.V) / rate, 1)


def lemma_7(sizes: TextSizes, norm: float) -> float:
    """Return alpha_t at |W_kq| = norm."""
    scale = 4 * sizes.N * sizes.L**2 * sizes.star**2
    return scale * (1 + math.log(2 * sizes.L * norm)) / norm


def lemma_7_from(sizes: TextSizes, rate: float) -> int:
    """Return t_0, from which on Lemma 7 applies."""
    return math.ceil(8 * sizes.L * sizes.star**2 / rate)


def theorem_1(sizes: TextSizes, t: float, rate: float) -> float:
    """Return the bound of Theorem 1 on 1 - cos(W_kq, W_kq*)."""
    return theorem_1_scale(sizes, rate) * math.log(t) ** 2 / t


def theorem_1_scale(sizes: TextSizes, rate: float) -> float:
    """The factor of log^2 t/t in Theorem 1."""
    return 54 * sizes.N * sizes.L**4 * sizes.star**4 / rate


def steps_asked_of_stage_2(sizes: TextSizes, rate: float) -> float:
    """The least t of Theorem 2: t >= 1696 N L^4 |W_kq*|^6 log^2 t/eta."""
    return first_time(1696 * sizes.N * sizes.L**4 * sizes.star**6 / rate, 2)


def theorem_2_weight(sizes: TextSizes, t: float, rate: float) -> float:
    """Return the least optimal weight that Theorem 2 guarantees."""
    return 1 / (1 + sizes.L * math.exp(-attention_rate(sizes, rate) * t))


def theorem_2_log_loss(sizes: TextSizes, t: float, rate: float, margin: float) -> float:
    """The log of (4), with T C_0 = margin/(4 |W_ov*|)."""
    grown = min(attention_rate(sizes, rate) * t, 700.0)
    share = 1 - 2 * sizes.L / (sizes.L + math.exp(grown))
    return math.log(sizes.V) - margin / (4 * sizes.star_ov) * share


def attention_rate(sizes: TextSizes, rate: float) -> float:
    """C_1 of Theorem 2."""
    return rate / (4 * sizes.L * sizes.star**2)


def loss_at_start(sizes: TextSizes) -> float:
    """Return log V, the loss of a model that knows nothing; a bound above it says nothing."""
    return best_loss(sizes.V, 0.0)


def theorem_3(sizes: TextSizes, t: float, rate: float, gap: float) -> float:
    """D.2: the least (x - x')'W_kq q at time t, for tokens that W_kq* holds `gap` apart."""
    off = 108 * t * rate * sizes.N * sizes.L**2 * sizes.star**2
    return t * rate * gap / (2 * sizes.L * sizes.star**2) - math.sqrt(off) * math.log(t)


def first_time(scale: float, power: int) -> float:
    """Return the t from which on t >= scale log^power t; 1 if that holds everywhere."""
    lowest = math.exp(power)  # t/log^power t is least there, and increases after
    if scale * power**power <= lowest:
        return 1.0
    # from below the largest root, t -> scale log^power t climbs to it
    t = scale * power**power
    while True:
        following = scale * math.log(t) ** power
        if following - t <= 1e-12 * t:
            return following
        t = following
