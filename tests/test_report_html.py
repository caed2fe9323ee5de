"""`karenina report`: the page says what the selection says, needs nothing else, and lets no name become markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from command_line import strict_json
from planted_tables import DOMAIN, Planted, dummies
from reports import DOMAIN_TEXT, groups, make_run, planted_run, some_rewards

import karenina.report
from karenina import cli
from karenina.report import FinishedRun, read_run, report_html
from karenina.selection import select

EVIL = "<img src=x onerror=alert(1)>"
EVIL_INPUT = "</script><script>alert('input')</script>"


class Page(HTMLParser):
    """What a browser would make of it: elements, and text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data

    def attributes(self, name: str) -> list[str | None]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("report"))


def words(page: Page) -> str:
    return " ".join(page.text.split())


def test_the_verdict_comes_first(run: Path) -> None:
    found = read_run(run)
    text = words(Page(report_html(found)))
    survivors, sentence = found.selection.survivors, str(found.selection.guarantee)
    assert f"{len(survivors)} of 6 models survive" in text
    assert f"Recommended: {found.selection.recommended}," in text
    assert sentence[1:] in text
    assert "every removal certified" in text
    assert "0.1.0" in text
    assert text.index("models survive") < text.index("Who left, and why") < text.index("How far apart")
    for step in found.selection.iterations:
        assert ", ".join(removal.name for removal in step.removed) in text


def test_the_page_needs_nothing_else(run: Path) -> None:
    text = report_html(read_run(run))
    page = Page(text)
    assert page.attributes("src") == []
    assert all(str(link).startswith("#") for link in page.attributes("href"))
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|https?://(?!www\.w3\.org/2000/svg)", text)
    assert "script-src 'sha256-" in text
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert len(text) < 2_000_000


def test_every_link_inside_the_page_leads_somewhere(run: Path) -> None:
    page = Page(report_html(read_run(run), some_rewards([f"seed_{k}" for k in range(6)], 3)))
    places = page.attributes("id")
    assert len(places) == len(set(places))
    assert {str(link)[1:] for link in page.attributes("href")} <= set(map(str, places))


def test_names_are_text_wherever_they_stand() -> None:
    names = [f"{EVIL}{k}" for k in range(9)]
    run = planted_run(groups([5, 4]), names)
    text = report_html(run, some_rewards(names, 5))
    page = Page(text)
    assert "img" not in [tag for tag, _ in page.elements]
    assert EVIL in page.text
    assert EVIL not in text


def test_files_and_domains_cannot_break_out(tmp_path: Path) -> None:
    domain = DOMAIN_TEXT.replace("right side", EVIL_INPUT)
    names = [f"a&b '{k}' <b>" for k in range(4)]
    text = report_html(read_run(make_run(tmp_path, names, domain)))
    assert "<script>alert" not in text
    assert "b" not in [tag for tag, _ in Page(text).elements]
    assert text.count("<script") == 2
    assert text.count("</script>") == 2


def test_what_is_not_certified_is_not_called_so() -> None:
    values = groups([4]).tolist()
    slow = {(i, j): (values[i][j] / 2, 9.0) for i in range(4) for j in range(i + 1, 4)}
    measure = Planted(values, slow=slow)
    found = select(dummies(4), DOMAIN, measure=measure)
    text = words(Page(report_html(FinishedRun(found, DOMAIN, {}))))
    assert f"{len(found.iterations)} of {len(found.iterations)} iterations not certified" in text
    assert "every removal certified" not in text
    assert "1 pairs of survivors are not known to the tolerance" in text


def test_select_writes_the_page_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path)
    capsys.readouterr()
    options = ["--domain", str(tmp_path / "domain.toml"), "--device", "cpu", "--no-cache", "--out", str(run)]
    assert cli.run(["select", str(tmp_path / "models"), *options, "--report"]) == 0
    assert capsys.readouterr().out.endswith(f"report:      {run / 'report.html'}\n")
    page = (run / "report.html").read_bytes()
    assert cli.run(["resume", str(run), "--no-cache", "--report", "--json"]) == 0
    assert strict_json(capsys.readouterr().out)["survivors"]
    assert len((run / "report.html").read_bytes()) == pytest.approx(len(page), abs=100)  # the time differs


def test_camps_and_their_warning_are_on_the_page() -> None:
    run = planted_run(groups([6, 4]))
    text = words(Page(report_html(run)))
    assert "Camp 1 (the survivors): m0, m1, m2, m3, m4, m5" in text
    assert "agreement cannot say" in text
    assert "Camps" not in words(Page(report_html(planted_run(groups([6])))))


# --- Colours ---------------------------------------------------------------------------------------------------------

ASSETS = Path(karenina.report.__file__).parent / "page"


def luminance(colour: str) -> float:
    """As WCAG defines it: what is left of a colour for an eye that sees no hue."""
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("ramp", "falls"), [("LIGHT", True), ("DARK", False)])
def test_the_heat_map_reads_without_hue(ramp: str, falls: bool) -> None:
    found = re.search(rf"const {ramp} = \[(.*?)\]", (ASSETS / "draw.js").read_text(encoding="utf-8"))
    assert found is not None
    lightness = [luminance(colour) for colour in re.findall("#[0-9a-f]{6}", found[1])]
    assert len(lightness) > 5
    assert lightness == sorted(lightness, reverse=falls)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(scheme: int) -> None:
    roots = re.findall(r":root \{(.*?)\}", (ASSETS / "style.css").read_text(encoding="utf-8"), re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", roots[scheme]))
    for behind in ("paper", "card", "soft", "warn"):
        for text in ("text", "stay", "leave"):
            assert contrast(colours[text], colours[behind]) >= 4.5, f"{text} on {behind}"
    for behind in ("paper", "card"):
        assert contrast(colours["muted"], colours[behind]) >= 4.5
    assert contrast(colours["paper"], colours["stay"]) >= 4.5  # the recommended model
    assert abs(luminance(colours["first"]) - luminance(colours["second"])) > 0.01


# --- The command -----------------------------------------------------------------------------------------------------


def test_the_command_writes_the_page_where_it_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", str(run)]) == 0
    assert capsys.readouterr().out == f"report:      {run / 'report.html'}\n"
    assert cli.run(["report", str(run), "--out", str(run / "other.html")]) == 0
    assert (run / "other.html").read_bytes() == (run / "report.html").read_bytes()
    assert not list(run.glob("*.draft"))


def test_rewards_are_shown_where_they_are_given(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rewards.csv").write_text("name,reward\nseed_0,5\nseed_1,-3.25\n")
    arguments = ["report", str(run), "--rewards", str(tmp_path / "rewards.csv"), "--out", str(tmp_path / "page.html")]
    assert cli.run([*arguments, "--good-above", "1"]) == 0
    text = words(Page((tmp_path / "page.html").read_text(encoding="utf-8")))
    assert "What they earned" in text
    assert "-3.25" in text
    assert "Good means above 1" in text
    assert cli.run(arguments) == 0  # nothing says what is good
    assert "Good means" not in words(Page((tmp_path / "page.html").read_text(encoding="utf-8")))
    capsys.readouterr()


def test_mistakes_are_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "others.csv").write_text("name,reward\nsomebody,5\n")
    for arguments, message in [
        (["report", str(tmp_path)], "is not a run folder"),
        (["report", str(run), "--rewards", str(tmp_path / "no.csv")], "no.csv cannot be read"),
        (["report", str(run), "--rewards", str(tmp_path / "others.csv")], "has no reward of any model of this run"),
        (["report", str(run), "--good-above", "3"], "--good-above needs rewards"),
        (["report", str(run), "--out", str(tmp_path / "no" / "page.html")], "cannot be written"),
    ]:
        assert cli.run(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert message in err


def test_a_run_of_something_else_does_not_keep_the_old_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path)
    assert cli.run(["report", str(run)]) == 0
    options = ["--domain", str(tmp_path / "domain.toml"), "--device", "cpu", "--no-cache", "--out", str(run)]
    assert cli.run(["select", str(tmp_path / "models"), *options, "--iterations", "1"]) == 0
    assert not (run / "report.html").exists()
    capsys.readouterr()
