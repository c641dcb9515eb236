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
        record = metadata.distribution("hardmax").read_text(
            "direct_url.json"
        )  # absent if it came by its name
        if record is None:
            return f"hardmax[{extra}]"
        origin = json.loads(record)
        url = urlsplit(origin["url"])
        if url.scheme != "file" or "dir_info" not in origin:
            prefix = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
            return f"hardmax[{extra}] @ {prefix}{origin['url']}"
        clone = Path(url2pathname(url.path))
    except metadata.PackageNotFoundError:
        clone = Path(__file__).parents[3]  # it runs from a clone without being installed
    if clone == Path.cwd() or not (clone / "pyproject.toml").is_file():
        return f".[{extra}]"  # the user is in it, or has to clone it again
    return f"{clone}[{extra}]"
