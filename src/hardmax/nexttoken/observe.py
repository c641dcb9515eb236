"""What the statements of paper C speak of, at every recorded point of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax.nexttoken.direction import StageTwo
from hardmax.nexttoken.limits import KqStar
from hardmax.nexttoken.measures import accuracy, log_excess_loss, log_off_masses, loss, target_masses
from hardmax.nexttoken.pairs import Floats


@dataclass(frozen=True, eq=False)
class Observables:
    """One number per recorded point, masses one row per point.

    ``log_gradient`` is log|G|; ``gradient_star`` and ``gradient_weights`` are <G, W_kq*>/|G| and
    <G, W_kq>/|G|, the scaled gradient of C-LEM-6 and C-LEM-7. ``target_mass`` has one column per sentence
    with two tokens or more, ``log_off_mass`` is the log of sum pi m_-. Undefined numbers are nan.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.training import train
    >>> run = train(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"]), steps=3, record=1)
    >>> seen = run.observe()
    >>> seen.accuracy.tolist(), bool((seen.gradient_star < -1 / 2**0.5).all())
    ([0.0, 1.0, 1.0, 1.0], True)
    """

    times: Floats
    norm: Floats
    misalignment: Floats
    loss: Floats
    log_excess: Floats
    accuracy: Floats
    target_mass: Floats
    log_off_mass: Floats
    log_gradient: Floats
    gradient_star: Floats
    gradient_weights: Floats


def observe(stage: StageTwo, star: KqStar, times: Any, points: Any) -> Observables:
    """Measure every point of a run of stage 2."""
    pairs, W_ov = stage.pairs, stage.W_ov
    rows, masses = [], []
    for a in points:
        found = stage.direction(a)
        off = pairs.log_weight + log_off_masses(pairs, a)
        masses.append(target_masses(pairs, a))
        rows.append(
            (
                float(np.sqrt(a @ a)),
                star.misalignment(a),
                loss(pairs, W_ov, a),
                log_excess_loss(pairs, W_ov, a),
                accuracy(pairs, a),
                float(np.logaddexp.reduce(off)),
                found.log_norm,
                math.nan if star.values is None else float(found.unit @ star.values),
                float(found.unit @ a),
            )
        )
    norm, off_cos, losses, excess, share, off_mass, log_gradient, by_star, by_weights = np.array(rows).T
    return Observables(
        np.asarray(times, dtype=np.float64), norm, off_cos, losses, excess, share, np.array(masses), off_mass,
        log_gradient, by_star, by_weights,
    )  # fmt: skip
