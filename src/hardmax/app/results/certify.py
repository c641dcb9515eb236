"""`certify`: whether a saved certificate proves its claim."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hardmax._lib.arguments import WrongType, check_arguments
from hardmax._lib.reading import read_json
from hardmax._lib.result import Result
from hardmax._lib.terminal import ending
from hardmax.margin.certificates import certify as check
from hardmax.trials.provenance import load_file


@dataclass(frozen=True, repr=False)
class CertifyResult(Result):
    """Whether a certificate is ``valid``, its claim ``what``, its ``violations``, and the ``trusted`` parts.

    >>> import hardmax as hm
    >>> print(hm.certify(hm.max_margin(hm.data.example("B-FIG-8"), [0, 0], exact=True).to_dict()))
    valid: p is the minimum-norm solution, |p|^2 = 10
    not checked: labels: they name the rows for a reader; the proof is about the
      rows by their numbers
    """

    schema: ClassVar[str] = "hardmax.certify/1"
    json_fields: ClassVar = ("valid", "what", "violations", "trusted")

    valid: bool
    what: str
    violations: tuple[str, ...]
    trusted: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 if the certificate is valid, 1 if not."""
        return ending(wrong=not self.valid)

    def table(self) -> str:
        """Return what `hardmax certify` prints."""
        if not self.valid:
            return "\n  ".join(["not valid:", *self.violations])
        return "\n".join([f"valid: {self.what}", *(f"not checked: {part}" for part in self.trusted)])


@check_arguments
def certify(certificate: Any, *, norm: str | os.PathLike[str] | None = None) -> CertifyResult:
    """Verify a saved certificate with an independent exact checker.

    The checker uses rational arithmetic and shares no code with the solver.

    Args:
        certificate: A certificate file. In Python also its content, as `MaxMargin.to_dict` returns it.
        norm: Python file that registers the custom norm of the certificate; it is executed.

    >>> import hardmax as hm
    >>> proof = hm.max_margin(hm.data.example("B-FIG-8"), [0, 0]).to_dict()
    >>> hm.certify(proof).valid, hm.certify({**proof, "digest": ""}).violations
    (True, ('digest: the file was changed',))
    """
    from hardmax._lib.annotations import read_path

    if norm is not None:
        run_file(Path(norm))
    if not isinstance(certificate, Mapping | str | os.PathLike):
        kind = type(certificate).__name__
        raise WrongType(f"certificate must be the name of a file or what it holds, got {kind}")
    if not isinstance(certificate, Mapping):
        file = Path(read_path("certificate", certificate))
        certificate = read_json(file, "a certificate")
        if not isinstance(certificate, dict) or certificate.get("schema") != "hardmax.certificate/1":
            raise ValueError(
                f"{file} is not a certificate; pass a file that MaxMargin.save or SolveResult.save wrote"
            )
    report = check(dict(certificate))
    return CertifyResult(
        report["valid"], report["what"], tuple(report["violations"]), tuple(report["trusted"])
    )


def norm_of_file(text: str) -> str:
    """Return the name in "FILE.py:NAME" after executing the file; return any other text as it is."""
    path, colon, name = text.rpartition(":")
    if not (colon and path.endswith(".py")):
        return text
    run_file(Path(path))
    return name


def run_file(path: Path) -> None:
    """Execute a file that calls `hm.margin.register`."""
    if not path.is_file():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    load_file(path)
