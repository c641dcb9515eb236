"""What the tests of all commands share."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hardmax.app import cli

SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "schemas"


@pytest.fixture(scope="session")
def validated():
    """Parse what a command printed with --json, and hold it against the schema that it names."""
    schemas = [json.loads(path.read_text()) for path in SCHEMAS.glob("*.schema.json")]
    by_name = {
        each["properties"]["schema"]["const"]: jsonschema.validators.validator_for(each)(each)
        for each in schemas
    }

    def parse(text: str) -> dict[str, Any]:
        answer = json.loads(text)
        by_name[answer["schema"]].validate(answer)
        return answer

    return parse


@pytest.fixture
def ntp(capsys):
    """A command of `ntp`: its exit code, and what it printed and said next to it."""

    def run(*arguments):
        code = cli.run(["ntp", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run
