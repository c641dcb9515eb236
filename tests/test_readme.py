"""The README: its examples and commands run as printed, its links lead somewhere, and it stays short."""

import doctest
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS = ["hardmax solve examples/three-inputs.json --flow"]


@pytest.mark.slow
@pytest.mark.compiled
def test_examples_run_as_printed():
    tried = doctest.testfile(
        str(ROOT / "README.md"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert tried.attempted >= 12
    assert tried.failed == 0


@pytest.mark.extra
def test_the_example_for_pytorch_runs():
    import torch

    import hardmax as hm

    [block] = [each for each in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if ">>>" not in each]

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def forward(self, batch):
            return type("Output", (), {"loss": self.encoder(batch).square().mean()})

    names = {"hm": hm, "model": Loss(), "batch": torch.ones(2, 3, 8)}
    exec(block, names)
    assert names["model"].encoder.self_attn.in_proj_weight.grad.abs().max() > 0


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_commands_run(line, tmp_path):
    assert line.split()[1] in README
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    command = [sys.executable, "-m", "hardmax", *shlex.split(line)[1:]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_it_is_short_and_without_ids():
    prose = re.sub(r"```.*?```|\]\([^)]*\)", " ", README, flags=re.DOTALL)
    prose = re.sub(r"^\|.*$", " ", prose, flags=re.MULTILINE)
    assert 400 < len(prose.split()) < 750
    assert not re.search(r"\b[ABCD]-(THM|LEM|ASM|ERR|DEF|ALG)-", README)


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(targets) > 15
    missing = [target for target in targets if not (ROOT / target).exists()]
    assert not missing
