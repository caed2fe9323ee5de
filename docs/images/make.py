"""Takes the pictures of the documentation: a report in a browser. Enters: the folder of a run (`make demo` makes one).
Leaves: verdict.png and pair.png beside this file.

    python docs/images/make.py build/demo

Needs Chromium, and playwright and pillow (the extras `test` and `plot`).
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from karenina.report import read_run, rewards_for, write_report

HERE = Path(__file__).parent
WIDTH = 1100


def take(page: Page, first: str, last: str, path: Path) -> None:
    """From the top of one part of the page to the end of another, in few colours, since it lies in the repository."""
    top = page.locator(first).bounding_box()
    end = page.locator(last).bounding_box()
    assert top is not None
    assert end is not None
    clip = {"x": 0.0, "y": max(0.0, top["y"] - 30), "width": WIDTH, "height": end["y"] + end["height"] + 30 - top["y"]}
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))
    picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    """Both pictures."""
    run = read_run(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        report = Path(folder) / "report.html"
        write_report(report, run, rewards_for(run.files or {}))
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(report.as_uri())
        page.wait_for_selector("html.ready")
        take(page, "#verdict", "#scores", HERE / "verdict.png")
        take(page, "#table", "#pair", HERE / "pair.png")
        browser.close()


if __name__ == "__main__":
    main()
