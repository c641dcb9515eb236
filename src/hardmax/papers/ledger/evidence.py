"""The evidence behind a row of the ledger: a stored check, figure, claim, training or fact."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from hardmax.papers.registry import ERRATA
from hardmax.papers.stored import epochs_of

Status = Literal["holds", "changed", "fails", "stand-in"]


class Stored(NamedTuple):
    """The stored results: those of the commands, and the finished trainings by name."""

    results: Mapping[str, Any]
    runs: Mapping[str, Mapping[str, Any]]

    def run(self, name: str) -> Mapping[str, Any] | None:
        """Return the longest training of a name, apart from the number of epochs in it."""
        kind = _EPOCHS.sub("", name)
        same = [run for other, run in self.runs.items() if _EPOCHS.sub("", other) == kind]
        return max(same, key=lambda run: run["epochs_done"], default=None)

    def finding(self, status: Status, text: str, differs: str = "") -> EvidenceResult:
        """Return a finding in the results of the commands."""
        return EvidenceResult(status, text, differs, (self.results["version"], self.results["date"]))


_EPOCHS = re.compile(r"-\d+-epochs")


class EvidenceResult(NamedTuple):
    """The finding of a piece of evidence; ``origin`` is the version and the day."""

    status: Status
    text: str
    differs: str
    origin: tuple[str, str]


class Evidence:
    """A stored result that a row rests on; ``made_by`` is its command, with attributes in braces."""

    made_by: ClassVar[str]

    @property
    def command(self) -> str:
        """The command that makes the stored result."""
        return self.made_by.format(self)

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return its finding; None if it has not been run."""
        raise NotImplementedError


@dataclass(frozen=True)
class CheckEvidence(Evidence):
    """A statement, checked on the instances that it was made for.

    The paper's own wording decides: it must hold on an instance, and where it fails on another the
    statement holds with a change, which the errata state. ``corrected`` is for a slip that makes the wording
    fail everywhere and has an obvious reading, which the row states: that reading decides then.
    """

    id: str
    corrected: bool = False

    made_by = "hardmax verify {0.id}"

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return the number of verdicts as expected, and of those on the printed wording."""
        check = stored.results["checks"].get(self.id)
        if check is None:
            return None
        printed, good = check["printed"], check["as_expected"] == check["checks"]
        holds = printed.get("holds", 0) + printed.get("vacuous", 0) + printed.get("consistent", 0)
        broken = printed.get("fails", 0) + printed.get("refuted", 0)
        status: Status = "changed" if broken else "holds"
        if not good or (broken and not holds and not self.corrected):
            status = "fails"
        words = f"{self.id}: {check['as_expected']} of {check['checks']} verdicts as expected"
        if broken:
            words += f"; the printed wording holds on {holds} instances, fails on {broken}"
        return stored.finding(status, words, " ".join(f"{id}: {ERRATA[id]}" for id in check["errata"]))


@dataclass(frozen=True)
class ClaimEvidence(Evidence):
    """One claim of a figure.

    ``quick`` states the difference if the stored result is at quick scale. ``contradicts`` says that the
    claim is the opposite of what the paper prints.
    """

    id: str
    quick: str = ""
    contradicts: bool = False

    made_by = "hardmax reproduce {0.figure}"

    @property
    def figure(self) -> str:
        """The id of the figure."""
        return self.id.partition(".")[0]

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return the measured value."""
        figure = stored.results["figures"].get(self.figure, {"claims": {}})
        claim = figure["claims"].get(self.id)
        if claim is None:
            return None
        words = f"{self.id}: {claim['measured']}, expected {claim['expected']}"
        return self._judged(stored, figure, claim["holds"] != self.contradicts, claim["stand_in"], words)

    def _judged(
        self, stored: Stored, figure: Mapping[str, Any], holds: bool, stand_in: bool, words: str
    ) -> EvidenceResult:
        less = self.quick if figure["scale"] == "quick" else ""  # a size below the paper's is a change
        status: Status = "fails" if not holds else "stand-in" if stand_in else "changed" if less else "holds"
        return stored.finding(status, words, less)


@dataclass(frozen=True)
class FigureEvidence(ClaimEvidence):
    """A figure, with all its claims; ``options`` are those of its command."""

    options: str = ""

    made_by = "hardmax reproduce {0.id} {0.options}"

    @property
    def command(self) -> str:
        """The command that makes the stored result."""
        return super().command.rstrip()

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return how many claims hold, and on which data."""
        figure = stored.results["figures"].get(self.id)
        if figure is None:
            return None
        claims = figure["claims"].values()
        stand_in, verdicts = all(c["stand_in"] for c in claims), [c["holds"] for c in claims]
        words = f"{self.id}: {sum(verdicts)} of {len(claims)} claims at {figure['scale']} scale"
        words += ", all on stand-ins" if stand_in else ""
        return self._judged(stored, figure, all(verdicts), stand_in, words)


@dataclass(frozen=True)
class Fact(Evidence):
    """A number that the script of the stored results computes."""

    name: str

    made_by = "python benchmarks/ledger_results.py --data DIR"

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return the number."""
        fact = stored.results["facts"].get(self.name)
        return None if fact is None else stored.finding("holds" if fact["holds"] else "fails", fact["text"])


Test = Callable[[Mapping[str, Any]], bool]
FAR_BELOW = 1e-2  # the paper: 1e-5 against 1e-1


@dataclass(frozen=True)
class TrainedEvidence(Evidence):
    """Trainings of paper A by name; each that is stored must pass the test.

    A training of the same kind that has another number of epochs in its name counts too.
    """

    names: tuple[str, ...]
    test: Test

    @property
    def command(self) -> str:
        """The command that makes the stored result."""
        return f"python benchmarks/paper_a_runs.py DATA {' '.join(self.names)} --keep DIR"

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return loss, mass, r_v, r_p and sign accuracy of each stored seed."""
        runs = [run for run in map(stored.run, self.names) if run is not None]
        if not runs:
            return None
        words = "; ".join(
            f"seed {run['seed']}, {epochs_of(run)}: loss {run['loss']:.2g}, mass {run['mass']:.2f}, r_v "
            f"{run['r_v']:.2f}, r_p {run['r_p']:.2f}, sign accuracy {run['sign_accuracy']:.2f}, "
            f"{run['cpu_seconds'] / 60:.0f} CPU min"
            for run in runs
        )
        if len(runs) < len(self.names):
            words += f"; {len(self.names) - len(runs)} of {len(self.names)} seeds not run"
        return _trained(runs, all(map(self.test, runs)), words)


@dataclass(frozen=True)
class Contrast(Evidence):
    """The loss of a training of two layers, which must be far below that of one layer on the same data."""

    two: str
    one: str

    made_by = "python benchmarks/paper_a_runs.py DATA {0.two} {0.one} --keep DIR"

    def finding(self, stored: Stored) -> EvidenceResult | None:
        """Return both losses; None unless both trainings are stored."""
        two, one = stored.run(self.two), stored.run(self.one)
        if two is None or one is None:
            return None
        words = (
            f"two layers {two['loss']:.2g} after {epochs_of(two)}, one layer {one['loss']:.2g} after "
            f"{epochs_of(one)}, seed {two['seed']}"
        )
        return _trained([one, two], two["loss"] <= FAR_BELOW * one["loss"], words)


SATURATED = 0.9  # mass of the attention on single tokens


def _trained(runs: list[Mapping[str, Any]], holds: bool, words: str) -> EvidenceResult:
    """Return the finding of trainings; an early stop or saturated attention counts as a change."""
    changes = [
        f"The training of {('one layer', 'two layers')[run['layers'] - 1]} from seed {run['seed']} was "
        f"stopped after {epochs_of(run)}."
        for run in runs
        if run["epochs_done"] < run["epochs"]
    ]
    changes += [
        f"From seed {run['seed']} attention saturates: one token has {run['mass']:.2f} of it on average."
        for run in runs
        if run["mass"] > SATURATED
    ]
    status: Status = "fails" if not holds else "changed" if changes else "holds"
    last = max(runs, key=lambda run: run["date"])
    return EvidenceResult(status, words, " ".join(changes), (last["version"], last["date"]))


def of_order(power: int) -> Test:
    """Return a test that a loss is of the order 10^power: its exponent, or the nearest power of ten."""
    return lambda run: 10.0 ** (power - 0.5) <= run["loss"] < 10.0 ** (power + 1)


def below(power: int) -> Test:
    """Return a test that a loss is of the order 10^power, or less."""
    return lambda run: run["loss"] < 10.0 ** (power + 1)


def shape(run: Mapping[str, Any]) -> bool:
    """Whether E v has the sign of x for 85 % of the tokens beyond 0.3, and E p rises with its modulus."""
    return run["sign_accuracy"] >= 0.85 and run["r_v"] > 0 and run["r_p"] > 0
