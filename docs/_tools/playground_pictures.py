"""The screenshots of docs/playground.md: python docs/_tools/playground_pictures.py [FOLDER]

Starts `hardmax play`, walks through the tour in chromium at desktop and phone width, and writes PNG files.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
NAMES = ("every-start", "two-basins", "normalised", "adam", "gradient", "sentences")
# Pictures and what is clicked for each: the six scenes, the words, and one of the scenes in the dark.
SHOWN = {name: f"[data-step='{k}']" for k, name in enumerate(NAMES)}
SHOWN |= {"words": "[data-scene='words']", "dark": "[data-step='3']"}
SIZES = {"desktop": ((1280, 860), 1.25), "phone": ((390, 844), 2.0)}


def colors(path: Path, common: int = 192, most: int = 256) -> None:
    """Fewer colors, a third of the bytes: the commonest as they are, for areas and shadows; the rest spread
    over what remains, for small marks."""
    from PIL import Image

    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    found = sorted(picture.getcolors(picture.width * picture.height), reverse=True)
    kept = [channel for _, color in found[:common] for channel in color]
    rare = picture.quantize(most - common, Image.Quantize.MAXCOVERAGE).getpalette()[: 3 * (most - common)]
    palette = Image.new("P", (1, 1))
    palette.putpalette(kept + rare)
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


def main(folder: Path) -> None:
    """Take them all."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "hardmax", "play", "--no-browser", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = json.loads(server.stdout.readline())["address"]
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
            for place, ((width, height), scale) in SIZES.items():
                for name, clicked in SHOWN.items():
                    page = browser.new_page(
                        viewport={"width": width, "height": height},
                        device_scale_factor=scale,
                        color_scheme="dark" if name == "dark" else "light",
                    )
                    page.goto(address)
                    page.wait_for_selector(".hmx[data-ready]", timeout=120_000)
                    page.click(clicked)
                    page.wait_for_timeout(500)
                    page.wait_for_selector(".hmx[data-idle='yes']", timeout=120_000)
                    page.wait_for_timeout(5000)
                    page.mouse.move(0, 0)
                    path = folder / f"{name}-{place}.png"
                    page.screenshot(path=path)
                    colors(path)
                    page.close()
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "img" / "playground")
