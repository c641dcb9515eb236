"""How to install an extra from where this copy of hardmax came from: a clone, a repository, or the index."""

import json
from pathlib import Path


def install(extra: str) -> str:
    """Return the command that installs an extra, as a person at this machine would type it."""
    return f'pip install "{source(extra)}"'


def source(extra: str) -> str:
    """Return pip's argument: the folder or address that hardmax came from, and the extra in brackets."""
    # a tenth of a second to import, and hardly ever wanted
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        noted = metadata.distribution("hardmax").read_text("direct_url.json")  # absent if it came by its name
    except metadata.PackageNotFoundError:
        return _of_folder(_beside(), extra)
    if noted is None:
        return f"hardmax[{extra}]"
    origin = json.loads(noted)
    url = urlsplit(origin["url"])
    if url.scheme == "file" and "dir_info" in origin:
        folder = Path(url2pathname(url.path))
        return _of_folder(folder if (folder / "pyproject.toml").is_file() else None, extra)
    if "vcs_info" in origin:
        return f"hardmax[{extra}] @ {origin['vcs_info']['vcs']}+{origin['url']}"
    return f"hardmax[{extra}] @ {origin['url']}"


def _beside() -> Path | None:
    """Return the clone that this file is part of, if it runs from one without being installed."""
    clone = Path(__file__).parents[3]
    return clone if (clone / "pyproject.toml").is_file() else None


def _of_folder(clone: Path | None, extra: str) -> str:
    """Return a folder with an extra: a dot if the user is in it, or if it has to be cloned again."""
    if clone is None or clone == Path.cwd():
        return f".[{extra}]"
    return f"{clone}[{extra}]"
