"""The page in a real browser: it draws, the slider moves, a click and a key open a pair, and nothing complains.

Needs Chromium and playwright (which drives it); where one is missing the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reports import groups, make_run, planted_run, some_rewards

from karenina.report import FinishedRun, Rewards, read_run, write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
FLAGS = [
    "--no-sandbox",  # continuous integration runs as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}
EVIL = "<img src=x onerror=\"document.title='broken'\">"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@dataclass
class Opened:
    """A page, and what it complained about."""

    page: Any
    complaints: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return " ".join(str(self.page.inner_text(selector)).split())

    def pixels(self, selector: str) -> set[str]:
        """The colours on a canvas."""
        colours = """(canvas) => {
            const d = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            const found = new Set();
            for (let k = 0; k < d.length; k += 4 * 37) found.add([d[k], d[k + 1], d[k + 2]].join());
            return [...found];
        }"""
        return set(self.page.eval_on_selector(selector, colours))


Opener = Callable[..., Opened]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    contexts = []

    def make(
        run: FinishedRun, rewards: Rewards | None = None, size: dict[str, int] = DESKTOP, scheme: str = "light"
    ) -> Opened:
        write_report(tmp_path / "report.html", run, rewards)
        context = browser.new_context(viewport=size, color_scheme=scheme)
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", lambda r: None if r.url.startswith("file:") else found.complaints.append(r.url))
        found.page.goto((tmp_path / "report.html").as_uri())
        found.page.wait_for_selector("html.ready")
        return found

    yield make
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return read_run(make_run(tmp_path_factory.mktemp("browser")))


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_draws_and_fits(run: FinishedRun, opened: Opener, size: dict[str, int], scheme: str) -> None:
    found = opened(run, some_rewards(run.selection.names, 3), size, scheme)
    assert found.complaints == []
    assert found.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert found.page.locator("#scores svg circle, #scores svg path").count() == 6
    assert found.page.locator("#pair-view .card").count() == 3  # two inputs, and the plane
    assert found.page.locator("#rewards-figures svg").count() == 3
    assert len(found.pixels("#heat")) > 6
    assert len(found.pixels("#pair-view canvas")) > 6
    shots = os.environ.get("KARENINA_SCREENSHOTS")
    if shots:
        found.page.screenshot(path=Path(shots) / f"report-{size['width']}-{scheme}.png", full_page=True)


def test_the_slider_steps_through_the_iterations(run: FinishedRun, opened: Opener) -> None:
    found = opened(run)
    steps = run.selection.iterations
    found.page.focus("#step")
    for step in steps:
        assert found.text("#step-title") == f"Iteration {step.number}"
        assert ", ".join(removal.name for removal in step.removed) in found.text("#step-why")
        assert found.page.locator("#scores .leaves").count() == len(step.removed)
        assert found.page.locator("#scores .stays").count() == len(step.survived)
        found.page.keyboard.press("ArrowRight")
    assert found.text("#step-title") == "The survivors"
    assert run.selection.stop.reason in found.text("#step-why")
    assert found.page.is_disabled("#forth")
    found.page.click("#back")
    assert found.text("#step-title") == f"Iteration {len(steps)}"
    assert found.complaints == []


def centre_of_cell(found: Opened, row: int, column: int, models: int) -> dict[str, float]:
    """Where a cell is on the canvas: the cells are at its right and lower end."""
    box = found.page.locator("#heat").bounding_box()
    margin = found.page.evaluate("""() => {
        const pen = document.createElement("canvas").getContext("2d");
        pen.font = "12px system-ui, sans-serif";
        return pen.measureText("seed_0").width + 14;
    }""")
    cell = (box["width"] - margin - 2) / models
    return {"x": margin + (column + 0.5) * cell, "y": margin + (row + 0.5) * cell}


def test_a_click_opens_the_pair_and_hovering_reads_it(run: FinishedRun, opened: Opener) -> None:
    found = opened(run)
    found.page.select_option("#order", "given")
    found.page.locator("#heat").hover(position=centre_of_cell(found, 1, 4, 6))
    assert found.text("#heat-text").startswith("seed_1 and seed_4: ")
    found.page.locator("#heat").click(position=centre_of_cell(found, 1, 4, 6))
    assert "seed_1 and" in found.text("#pair-title")
    assert "seed_4" in found.text("#pair-title")
    check_pair(run, found, "seed_1", "seed_4")
    assert found.complaints == []


def check_pair(run: FinishedRun, found: Opened, first: str, second: str) -> None:
    known = run.selection.table.disagreement(first, second)
    assert known.outputs is not None
    assert known.witness is not None
    rows = found.page.locator("#pair-view table tr").all_inner_texts()
    for name, output, row in zip((first, second), known.outputs, rows[1:], strict=True):
        assert name in row
        assert float(row.split()[-1].replace("−", "-")) == pytest.approx(output[0], rel=1e-3)
    captions = found.page.locator("#pair-view .card:not(.plane) figcaption").all_inner_texts()
    for label, value, caption in zip(run.domain.labels, known.witness, captions, strict=True):
        assert caption.startswith(label)
        assert float(caption.split(" at ")[-1].replace("−", "-")) == pytest.approx(value, rel=1e-3, abs=1e-9)


def test_everything_can_be_done_with_the_keyboard(run: FinishedRun, opened: Opener) -> None:
    found = opened(run)
    found.page.select_option("#order", "given")
    found.page.focus("#heat")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        found.page.keyboard.press(key)
    assert found.text("#heat-text").startswith("seed_1 and seed_2: ")
    found.page.keyboard.press("Enter")
    check_pair(run, found, "seed_1", "seed_2")
    found.page.select_option("#choose-first", label="seed_5")
    check_pair(run, found, "seed_5", "seed_2")  # the other way round than it is stored
    reached = set()
    found.page.evaluate("document.activeElement.blur()")
    for _ in range(30):
        found.page.keyboard.press("Tab")
        reached.add(found.page.evaluate("document.activeElement.id"))
    assert {"step", "forth", "order", "bound", "heat", "choose-first", "choose-second"} <= reached


def pictures(found: Opened, control: str, values: Sequence[str]) -> set[str]:
    """The heat map as it is, and after each choice."""
    seen = set()
    for value in (None, *values):
        if value is not None:
            found.page.select_option(control, value)
        seen.add(str(found.page.eval_on_selector("#heat", "(canvas) => canvas.toDataURL()")))
    return seen


def test_orders_redraw_the_table(run: FinishedRun, opened: Opener) -> None:
    assert len(pictures(opened(run), "#order", ["given", "clustering"])) == 3


def test_bounds_redraw_the_table(opened: Opener) -> None:
    found = opened(planted_run(groups([3, 3]), exact=False))
    assert len(pictures(found, "#bound", ["upper"])) == 2
    assert "disagree by at most" in found.text("#heat-bar")


def test_names_are_text_in_the_browser_too(opened: Opener) -> None:
    names = [f"{EVIL}{k}" for k in range(9)]
    found = opened(planted_run(groups([5, 4]), names), some_rewards(names, 5))
    found.page.locator("button[data-pair]").click()
    found.page.focus("#heat")
    found.page.keyboard.press("ArrowRight")
    assert found.page.title() != "broken"
    assert found.page.locator("img").count() == 0
    assert EVIL in found.text("#heat-text")
    assert found.complaints == []


def test_a_page_without_networks_still_shows_the_witness(run: FinishedRun, opened: Opener) -> None:
    found = opened(FinishedRun(run.selection, run.domain, {}))
    assert found.page.locator("#pair-view .card").count() == 0
    assert "right side" in found.text("#pair-view")
    assert "karenina explain" in found.text("#pair-view")
    assert found.complaints == []


def test_printing_shows_all_and_uses_light_colours(run: FinishedRun, opened: Opener) -> None:
    found = opened(run, None, DESKTOP, "dark")
    found.page.emulate_media(media="print")
    assert not found.page.is_visible("nav")
    found.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert found.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert "24,33,44" not in found.pixels("#heat")
    assert found.page.is_visible("#iterations details table")
    found.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not found.page.is_visible("#iterations details table")
    assert len(found.page.pdf()) > 10_000
    assert found.complaints == []


def test_256_models_are_usable(opened: Opener) -> None:
    run = planted_run(groups([150, 60, 46]))
    found = opened(run)
    assert found.complaints == []
    size = found.page.evaluate("document.documentElement.outerHTML.length")
    assert size < 6_000_000
    assert found.page.locator("#scores svg .name").count() == 256
    found.page.select_option("#order", "clustering")
    found.page.locator("#heat").click(position={"x": 300, "y": 100})
    assert "disagree by" in found.text("#pair-words")
    assert np.isfinite(run.selection.guarantee.upper)
    assert found.complaints == []
