"""What the tests of all answers share."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hardmax import cli
from hardmax.answers import Answer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def valid_json():
    """The JSON of an answer, held against the schema that it names."""
    schemas = [json.loads(path.read_text()) for path in (ROOT / "docs" / "schemas").glob("*.schema.json")]
    by_name = {each["properties"]["schema"]["const"]: each for each in schemas}

    def validated(answer: Answer) -> dict[str, Any]:
        told = answer.json()
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        jsonschema.validate(told, by_name[answer.schema])
        return told

    return validated


@pytest.fixture
def command(capsys):
    """Run a command line; return its exit code and what it printed."""

    def run(*arguments: Any) -> tuple[int, str]:
        code = cli.run([*map(str, arguments)])
        return code, capsys.readouterr().out

    return run
