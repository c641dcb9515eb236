"""The models of paper C as `hm.train` and `hm.flow` take them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hardmax.data.sentences.samples import Samples
from hardmax.dynamics.driver import known_options
from hardmax.dynamics.models import Model
from hardmax.dynamics.optim import Normalized, Optimizer
from hardmax.dynamics.optim.rules import need_optimizer
from hardmax.nexttoken import training
from hardmax.nexttoken.stages import Pairs, stage_1, train_output
from hardmax.nexttoken.unmerged import Unmerged, train_jointly, train_unmerged
from hardmax.problem.readouts import OutputValue

BLOCKS = ("W_ov", "W_kq")
OPTIONS = ("record", "batch", "rng", "milestones", "until_loss", "progress", "checkpoint", "checkpoint_every")
FAST = {"steps", "record", "progress", "start", "after", "stop"}  # options of Algorithm 1 itself


@dataclass(frozen=True, eq=False)
class NextTokenModel(Model):
    """Output-value matrix W_ov and key-query matrix W_kq of one layer; `Samples.model` makes it.

    W_ov is trained first and then W_kq (Algorithm 1 of paper C, whose steps are normalized); or both together
    (``joint``), or the four factors of ``weights`` together. An optimizer may be given for each matrix.

    >>> import hardmax as hm
    >>> samples = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
    >>> samples.model()
    NextTokenModel(n=9, V=4, blocks=('W_ov', 'W_kq'))
    >>> run = hm.train(samples.model(), hm.optim.Normalized(lr=0.1), steps=1000)
    >>> run.predictor.predict("O S P").next(1)[0][0]
    'P'
    """

    samples: Samples
    blocks: tuple[str, ...] = BLOCKS
    joint: bool = False
    E: Any = None
    weights: Unmerged | None = None

    def __post_init__(self) -> None:
        if self.blocks not in (BLOCKS, BLOCKS[:1]):
            raise ValueError(f'blocks must be ("W_ov", "W_kq") or ("W_ov",), got {self.blocks!r}')
        if self.E is not None and not self.joint:
            raise ValueError("E requires joint=True; without it the embedding is orthonormal")

    def __repr__(self) -> str:
        how = ", joint=True" if self.joint else ""
        return f"NextTokenModel(n={self.samples.n}, V={self.samples.V}, blocks={self.blocks}{how})"

    @property
    def optimizers(self) -> dict[str, Normalized]:
        """The optimizers of the paper's experiment, their learning rates scaled to the vocabulary.

        >>> import hardmax as hm
        >>> samples = hm.nexttoken.Samples.from_sentences(["S V O P", "V O P", "O P P", "P S V"])
        >>> samples.model().optimizers["W_kq"].constant_rate
        0.025
        """
        root = math.sqrt(self.samples.V)
        return {"W_ov": Normalized(training.FIRST_RATE / root), "W_kq": Normalized(training.RATE / root)}

    def _train(
        self,
        optimizer: Any,
        *,
        steps: int | None = None,
        epochs: int | None = None,
        output_steps: int = training.STEPS,
        W_ov: OutputValue | None = None,
        n: Any = None,
        **options: Any,
    ) -> Any:
        """Train; ``output_steps`` of W_ov come before the ``steps`` of W_kq, or ``W_ov`` replaces them."""
        names = [*OPTIONS]
        if self.weights is None and not self.joint:
            names += ["start", "after", "stop"] if self.blocks == BLOCKS else ["start"]
        known_options("next tokens", options, names)
        steps = training.STEPS if steps is None and epochs is None else steps
        options |= {name: x for name, x in (("steps", steps), ("epochs", epochs)) if x is not None}
        if self.blocks == BLOCKS[:1]:
            return train_output(Pairs.of(self.samples, n).collocation, self._one(optimizer), **options)
        if self.weights is not None or self.joint:
            rate = optimizer if isinstance(optimizer, Mapping) else self._one(optimizer)
            options = {"steps": None, "rate": rate, **options}
            if self.weights is not None:
                return train_unmerged(self.weights, **options)
            return train_jointly(self.samples, E=self.E, **options)
        by = dict(zip(BLOCKS, self.each(optimizer), strict=True))
        if by["W_kq"].of_matrix:
            raise ValueError(
                f"optimizer of W_kq must have a norm of vectors, got {type(by['W_kq']).__name__}: W_kq has "
                "one number per pair of tokens here; take samples.model(joint=True), where it is a matrix"
            )
        if W_ov is None and not _is_plain(by["W_ov"]):
            W_ov = train_output(Pairs.of(self.samples, n).collocation, by["W_ov"], steps=output_steps).W_ov
        first_rate = by["W_ov"].constant_rate
        if _is_plain(by["W_kq"]) and set(options) <= FAST:
            first: Any = {"stage1": output_steps, "first_rate": first_rate} if W_ov is None else {}
            return training.train(
                self.samples, rate=by["W_kq"].constant_rate, W_ov=W_ov, n=n, **first, **options
            )
        for name in ("after", "stop"):
            if name in options:
                raise TypeError(f"{name} is for Normalized steps on all sentences; give checkpoint= instead")
        pairs = Pairs.of(self.samples, n)
        if W_ov is None:
            W_ov = stage_1(pairs.collocation, output_steps, first_rate)
        return training.train_attention(pairs, W_ov, by["W_kq"], **options)

    def _flow(  # type: ignore[override]
        self, *, until: float, optimizer: Any = None, output_steps: int = 900, **options: Any
    ) -> training.Training:
        """Follow the flow of W_kq to the time ``until``, counted in steps of the optimizer of W_kq."""
        if self.joint or self.weights is not None or self.blocks != BLOCKS:
            raise TypeError(
                "hm.flow follows W_kq after W_ov is trained; take samples.model() without options"
            )
        first, second = self.each(self.optimizers if optimizer is None else optimizer)
        for name, step in (("W_ov", first), ("W_kq", second)):
            if not _is_plain(step):
                raise TypeError(
                    f"optimizer of {name} must be Normalized with one learning rate, got {step!r}; its flow "
                    "is the normalized one: train by other optimizers with hm.train"
                )
        rates: dict[str, Any] = {"rate": second.constant_rate, "first_rate": first.constant_rate}
        return training.train_by_flow(self.samples, until, stage1=output_steps, **rates, **options)

    def _one(self, optimizer: Any) -> Optimizer:
        """The optimizer of a single block, or of all blocks as one vector."""
        if isinstance(optimizer, Mapping):
            (optimizer,) = self.each(optimizer)
        return need_optimizer(optimizer)


def _is_plain(optimizer: Optimizer) -> bool:
    """Whether Algorithm 1 takes its steps: normalized by the l2 norm, all of one length."""
    is_normalized = isinstance(optimizer, Normalized) and optimizer.norm == "l2" and not optimizer.eps
    return is_normalized and not math.isnan(optimizer.constant_rate)
