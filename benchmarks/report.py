"""What every benchmark shares: the --json option, and where tables and numbers go."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

REAL = Path(os.environ.get("HARDMAX_DATA", Path(__file__).parents[2] / "shared" / "data"))  # never shipped


def parser(text: str | None) -> argparse.ArgumentParser:
    """Options of a benchmark; its docstring is the help text."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", metavar="FILE", help='write the numbers as JSON; "-" is standard output')
    return made


def console(target: str | None) -> Console:
    """Where tables are printed: not where the JSON goes."""
    return Console(stderr=target == "-", width=110)


def write(result: dict[str, Any], target: str | None) -> None:
    """The numbers as JSON, if asked for."""
    if target == "-":
        sys.stdout.write(json.dumps(result) + "\n")
    elif target:
        Path(target).write_text(json.dumps(result, indent=1) + "\n")
