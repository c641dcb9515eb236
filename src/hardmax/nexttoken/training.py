"""Algorithm 1: stage 1 in closed form, stage 2 step by step (C-ALG-1), or as the flow of small steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.arguments import check_arguments
from hardmax._lib.progress import Progress
from hardmax.data.sentences.samples import Samples
from hardmax.dynamics.blocks import BlockTrainer, Pull, StepOptions
from hardmax.dynamics.checkpoint import digest
from hardmax.dynamics.driver import steps_to_record
from hardmax.dynamics.fields import ARC_LENGTH
from hardmax.dynamics.flow import along_arc, follow
from hardmax.dynamics.gradient import Settled, pull_of, risk_of, settle_at
from hardmax.dynamics.optim import Optimizer
from hardmax.dynamics.run import Run
from hardmax.dynamics.stepping import pull_by_coordinate
from hardmax.nexttoken.observables import Observables, log_excess_loss, loss, observe, target_masses
from hardmax.nexttoken.predict import Prediction, Predictor, Reached
from hardmax.nexttoken.relations import Orders, orders
from hardmax.nexttoken.stages import Floats, Ints, Pairs, StageTwo, stage_1
from hardmax.nexttoken.star import KqStar, Late, late_of
from hardmax.problem.problem import slots_of
from hardmax.problem.readouts import OutputValue, best_loss, star_norm

# Of the paper's experiment, which has |V| = 20: eta0 = 0.2/sqrt|V|, eta = 0.05/sqrt|V|, 900 steps each.
STEPS = 900
FIRST_RATE = 0.2
RATE = 0.05

# Token entries between two calls of `progress`: some hundredths of a second.
REPORT = 2_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Training(Run):
    """A run of Algorithm 1: W_ov, and W_kq as one value per pair at every recorded time.

    ``clock`` is "step" for normalized gradient descent and "flow" for its limit of small steps, with times
    t so that eta t is the arc length. ``points`` are in extended precision where a flow went far; ``event``
    is "stationary point" where the sentences' pulls cancel. ``signed_steps`` of the steps left the structured
    form. Other measurements of a `hardmax.Run` are of the problem `Samples.problem(W_ov)`.

    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.training import train
    >>> run = train(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"]), steps=900, rate=0.025)
    >>> run.norm_kq <= 900 * 0.025, run.misalignment_ov, run.signed_steps
    (True, 0.0, 0)
    >>> f"{run.misalignment_kq:.1e}", bool(run.loss > run.best_loss)
    ('4.8e-04', True)
    """

    pairs: Pairs = field(kw_only=True)
    W_ov: OutputValue = field(kw_only=True)
    rate: float = field(kw_only=True)
    first_rate: float | None = field(kw_only=True, default=None)
    stage_1_steps: int | None = field(kw_only=True, default=None)
    signed_steps: int = field(kw_only=True, default=0)

    @classmethod
    def of(
        cls,
        pairs: Pairs,
        W_ov: OutputValue,
        rate: float,
        clock: str,
        times: Floats,
        points: Any,
        **fields: Any,
    ) -> Training:
        """Make a run with values of the pairs at each time; its problem is made on first use."""
        stage: StageTwo | None = fields.pop("stage", None)
        source = partial(pairs.samples.problem, W_ov) if stage is None else stage.problem
        method = "normalized gradient descent" if clock == "step" else "normalized gradient flow"
        fields = {"pairs": pairs, "W_ov": W_ov, "rate": rate, "method": method, **fields}
        run = cls(source, clock, times, points, **fields)
        if stage is not None:
            vars(run)["stage"] = stage
        return run

    def _p(self, at: int) -> np.ndarray:
        """Return the pairs' values, and zero for the pairs that nothing moves."""
        p = np.zeros(self.problem.d)
        p[: self.pairs.P] = self.points[at]
        return p

    @property
    def samples(self) -> Samples:
        """The merged samples."""
        return self.pairs.samples

    @property
    def steps(self) -> int:
        """The last time."""
        return int(self.times[-1])

    @property
    def a(self) -> Any:
        """The pairs' values of W_kq at the end."""
        return self.points[-1]

    @property
    def W_kq(self) -> Any:
        """W_kq[token, query] at the end, as a sparse array."""
        from scipy.sparse import coo_array

        V = self.samples.V
        where = (self.pairs.token, self.pairs.query)
        return coo_array((np.asarray(self.a, dtype=np.float64), where), shape=(V, V)).tocsr()

    @cached_property
    def stage(self) -> StageTwo:
        """The gradient of stage 2 at any point."""
        return StageTwo(self.pairs, self.W_ov)

    @cached_property
    def orders(self) -> Orders:
        """The orders of the data."""
        return orders(self.samples, self.pairs.collocation)

    @cached_property
    def star(self) -> KqStar:
        """W_kq* of the data."""
        return KqStar.of(self.pairs, self.orders)

    @cached_property
    def late(self) -> Late | None:
        """C-THM-ASY for the data; None where it does not apply."""
        return late_of(self.star)

    @cached_property
    def loss(self) -> float:
        """The loss (1) at the end."""
        return loss(self.pairs, self.W_ov, self.a)

    @property
    def best_loss(self) -> float:
        """L*, the loss that attention alone can approach; nan where it is not known."""
        if self.W_ov.margin is None or math.isnan(self.log_excess_loss):
            return math.nan
        return best_loss(self.W_ov.V, self.W_ov.margin)

    @cached_property
    def log_excess_loss(self) -> float:
        """log(L - L*), which does not underflow; nan where L* is not known."""
        return log_excess_loss(self.pairs, self.W_ov, self.a)

    @property
    def excess_loss(self) -> float:
        """L - L* without cancellation; nan where L* is not known."""
        return math.exp(self.log_excess_loss)

    @property
    def norm_ov(self) -> float:
        """|W_ov|."""
        return self.W_ov.norm

    @property
    def norm_kq(self) -> float:
        """|W_kq| at the end."""
        return float(np.sqrt(self.a @ self.a))

    @property
    def misalignment_ov(self) -> float:
        """1 - cos(W_ov, W_ov*)."""
        return self.W_ov.misalignment_ov

    @property
    def misalignment_kq(self) -> float:
        """1 - cos(W_kq, W_kq*) at the end; nan where there is no W_kq*."""
        return self.star.cosine_distance(self.a)

    @cached_property
    def masses(self) -> Floats:
        """m_* at the end: attention on the right tokens, for each sentence with two tokens or more."""
        return target_masses(self.pairs, self.a)

    @cached_property
    def predictor(self) -> Predictor:
        """The trained model by itself: predicts, and can be saved."""
        return Predictor(
            self.samples.vocabulary,
            self.W_ov,
            self.pairs.token,
            self.pairs.query,
            np.asarray(self.a, dtype=np.float64),
            self.orders,
            self.star.values,
            None if self.late is None else self.late.R,
        )

    def reached(self, *, before: int = 0) -> Reached:
        """How far this run came, after ``before`` signed steps in earlier runs."""
        signed = before + self.signed_steps
        return Reached(self.steps, signed, self.rate, self.W_ov.margin, self.pairs.digest)

    def predict(self, sentence: str | Sequence[Any], *, limit: bool = False) -> Prediction:
        """Predict the next token of any sentence, with the reason; see `Predictor.predict`.

        >>> from hardmax.nexttoken import Samples
        >>> from hardmax.nexttoken.training import train
        >>> train(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])).predict("S P").next(1)
        [('V', 1.0)]
        """
        return self.predictor.predict(sentence, limit=limit)

    def observe(self) -> Observables:
        """All observables at every recorded time."""
        return observe(self.stage, self.star, self.times, self.points)

    @property
    def conditions(self) -> dict[str, tuple[float, float]]:
        """Optimizer sizes and the bounds that the proofs put on them, by name: (step, bound).

        >>> from hardmax.nexttoken import Samples
        >>> from hardmax.nexttoken.training import train
        >>> run = train(Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"]), steps=1)
        >>> [name for name, (step, bound) in run.conditions.items() if step > bound]
        []
        """
        length, bounds = self.star.norm, {}
        if self.first_rate is not None:
            bounds["eta0 <= |W_ov*|/2"] = (self.first_rate, 0.5 * star_norm(self.W_ov.collocation))
        if self.star.values is not None and length > 0.0:
            bounds["eta <= |W_kq*|/e"] = (self.rate, length / math.e)
            bounds["eta <= L_max |W_kq*|^2"] = (self.rate, self.samples.raw_length * length**2)
        if self.late is not None:
            bounds["eta < eta_c"] = (self.rate, self.late.eta_c)
        return bounds


@check_arguments
def train(
    samples: Samples,
    *,
    steps: int = STEPS,
    stage1: int = STEPS,
    rate: float | None = None,
    first_rate: float | None = None,
    record: int | Sequence[int] | None = None,
    W_ov: OutputValue | None = None,
    start: Any = None,
    after: int = 0,
    n: Ints | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> Training:
    """Run Algorithm 1: ``stage1`` steps of W_ov by C-THM-S1, then ``steps`` normalized steps of W_kq.

    Rates default to those of the paper's experiment scaled to |V|. ``W_ov`` replaces stage 1, ``start`` (one
    value per pair, or a V x V table) the zero of stage 2, ``n`` the collocation. If ``start`` was reached
    ``after`` steps, only the others are taken: to the same bits as in one go. ``record`` is every how
    many steps to keep, a list of steps, or by default about 60 at equal ratios. ``progress`` is called
    as ``progress(done, total)``; ``stop`` is called now and then, and if it returns true the run ends there.
    """
    done = expect.whole("after", after)
    steps = expect.whole("steps", steps, least=done)
    pairs, W_ov, rate, fields = _after_stage_1(samples, n, W_ov, stage1, first_rate, rate)
    # without a step to take there need not be anything for attention to learn
    stage = StageTwo(pairs, W_ov) if steps > done else None
    a = point(pairs, start)
    if record is None:
        record = np.unique(np.geomspace(1, max(1, steps), 60).round().astype(np.intp))[:steps].tolist()
    wanted = steps_to_record(record, steps)
    ahead = np.union1d(wanted[wanted > done], done)
    if stage is None:
        return Training.of(pairs, W_ov, rate, "step", ahead[:1].astype(np.float64), a[None].copy(), **fields)
    reached = done

    def watch(count: int) -> bool:
        nonlocal reached
        reached += count
        if progress and count:
            progress(reached, steps)
        return bool(stop and stop())

    piece = max(1, REPORT // max(1, len(pairs.pair)))
    watched = {"piece": piece, "told": watch} if progress or stop else {}
    result = stage.train(a, rate, ahead - done, **watched)
    last = done + result.taken
    times, points = ahead[ahead <= last], result.points[ahead <= last]
    if times[-1] < last:
        times, points = np.append(times, last), np.concatenate([points, a[None]])
    fields |= {"stage": stage, "event": result.event, "signed_steps": result.plain}
    return Training.of(pairs, W_ov, rate, "step", times.astype(np.float64), points, **fields)


def _after_stage_1(
    samples: Samples,
    n: Ints | None,
    W_ov: OutputValue | None,
    stage1: int,
    first_rate: float | None,
    rate: float | None,
) -> tuple[Pairs, OutputValue, float, dict[str, Any]]:
    """Return the pairs, W_ov as given or by stage 1, the rate of stage 2, and the fields about stage 1."""
    pairs, root = Pairs.of(samples, n), math.sqrt(samples.V)
    first_rate = expect.positive("first_rate", FIRST_RATE / root if first_rate is None else first_rate)
    rate = expect.positive("rate", RATE / root if rate is None else rate)
    if W_ov is not None:
        return pairs, W_ov, rate, {}
    steps = expect.whole("stage1", stage1)
    fields = {"first_rate": first_rate, "stage_1_steps": steps}
    return pairs, stage_1(pairs.collocation, steps, first_rate), rate, fields


@check_arguments
def train_by_flow(
    samples: Samples,
    until: float,
    *,
    stage1: int = STEPS,
    rate: float | None = None,
    first_rate: float | None = None,
    record: Sequence[float] | None = None,
    W_ov: OutputValue | None = None,
    start: Any = None,
    n: Ints | None = None,
) -> Training:
    """Run Algorithm 1 with stage 2 as a flow, to the time ``until`` on the clock of steps of size ``rate``.

    The flow is the limit of steps as ``rate`` tends to zero with the arc length rate x time fixed: that of
    `hm.flow` with the clock "arc length": along edges where that form is exact, so that a step costs no more
    than the sentences do, and with dense matrices of the pairs where it is not. Times to ``record`` are every
    factor of 2 by default.
    """
    pairs, W_ov, rate, fields = _after_stage_1(samples, n, W_ov, stage1, first_rate, rate)
    end = expect.positive("until", until)
    if not rate * end <= 1e15:  # beyond it steps of the flow vanish in rounding
        raise ValueError(f"until times rate must be at most 1e15, got {rate * end:g}")
    if record is None:  # every factor of 2 from the first leg on
        first = ARC_LENGTH.first / rate
        record = (first * 2.0 ** np.arange(max(0, int(np.floor(np.log2(end / first))) + 1))).tolist()
    wanted = np.unique([*map(float, record), end])
    if wanted[0] <= 0.0 or wanted[-1] > end:
        raise ValueError(f"record must be times above 0 and up to until = {end:g}, got {record!r}")
    stage = StageTwo(pairs, W_ov)
    p = np.zeros(stage.problem.d)
    p[: pairs.P] = point(pairs, start)
    lengths = rate * wanted
    reached, points, event = follow(along_arc(stage.problem, p), p, (), lengths[-1], lengths)
    times = np.append(0.0, wanted) if event is None else reached / rate
    values = points[:, : pairs.P]
    return Training.of(pairs, W_ov, rate, "flow", times, values, stage=stage, event=event, **fields)


def train_attention(
    pairs: Pairs, W_ov: OutputValue, optimizer: Optimizer, *, start: Any = None, **options: Any
) -> Training:
    """Train W_kq with W_ov fixed by any optimizer, with the options of `StepOptions`."""
    stage = StageTwo(pairs, W_ov)
    problem, slots = stage.problem, slots_of(stage.problem)
    p = np.zeros(problem.d)
    p[: pairs.P] = point(pairs, start)

    def evaluate(inputs: Any) -> Settled:
        settled = settle_at(problem, trainer.blocks["W_kq"], slots)
        if inputs is None:
            return settled
        others = np.ones(problem.n, bool)
        others[inputs] = False
        return replace(settled, log_slopes=np.where(others, -np.inf, settled.log_slopes))

    def pulls(settled: Settled, step: int) -> dict[str, Pull]:
        log_scale: Any
        if optimizer.by_coordinate:
            direction, log_scale, _ = pull_by_coordinate(settled, slots.table, problem.total)
        else:
            pull = pull_of(settled, slots.table, problem.total)
            direction, log_scale = pull.direction, pull.log_norm
        return {"W_kq": Pull(direction, log_scale, float(direction.any()))}

    trainer = BlockTrainer({"W_kq": p}, optimizer, StepOptions.read(problem.n, **options), evaluate, pulls)

    def observe() -> dict[str, Any]:
        values = trainer.blocks["W_kq"][: pairs.P]
        return {"losses": risk_of(problem, trainer.point), "points": values}

    def identity() -> dict[str, Any]:
        data = pairs.samples
        samples = (data.tokens, data.counts, data.offsets, data.query, data.target, data.weight)
        return {"model": "W_kq", "corpus": digest(*samples), "start": digest(W_ov.table, p)}

    trainer.run(observe, identity)
    times, points = np.array(trainer.times, dtype=np.float64), trainer.observed.pop("points")
    fields = {"event": trainer.event, "method": trainer.name, "observed": trainer.observed, "stage": stage}
    return Training.of(pairs, W_ov, optimizer.constant_rate, "step", times, points, **fields)


def point(pairs: Pairs, start: Any) -> Floats:
    """Read a start of stage 2: zero, one value per pair, or a V x V table that is zero elsewhere."""
    if start is None:
        return np.zeros(pairs.P)
    values = expect.real_array("start", start)
    if values.shape == (pairs.samples.V, pairs.samples.V):
        table, values = values, pairs.values(values)
        if np.count_nonzero(table) != np.count_nonzero(values):
            raise ValueError("start must be zero for tokens and queries that never meet in a sentence")
    return np.array(expect.finite_array("start", values, (pairs.P,)))
