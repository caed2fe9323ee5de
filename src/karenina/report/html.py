"""The page. Enters: a `FinishedRun` and perhaps rewards. Leaves: one HTML file that needs nothing else.

Its content policy allows the one script and the one style sheet it carries, by their hashes, and nothing more: a name
that slipped through would still not run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path

from karenina.errors import InputError
from karenina.report import sections
from karenina.report.content import page_data
from karenina.report.finished import FinishedRun
from karenina.report.rewards import Rewards

__all__ = ["report_html", "write_report"]

_SCRIPTS = ("draw.js", "iterations.js", "heatmap.js", "pair.js", "rewards.js", "start.js")
_LINKS = {
    "iterations": "Who left",
    "table": "All pairs",
    "pair": "One pair",
    "camps": "Camps",
    "rewards": "Rewards",
    "models": "Models",
    "asked": "What was asked",
}


def report_html(run: FinishedRun, rewards: Rewards | None = None) -> str:
    """The page as text."""
    parts = {
        "iterations": sections.iterations(run.selection),
        "camps": sections.camps(run),
        "table": sections.table(run.selection),
        "pair": sections.pair(run),
        "rewards": sections.rewards_section(rewards),
        "models": sections.models(run, rewards),
        "asked": sections.asked(run),
    }
    links = "".join(f'<a href="#{part}">{_LINKS[part]}</a>' for part, text in parts.items() if text)
    script, style = _script(), _asset("style.css")
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{sections.title(run)}</title>
<style>{style}</style></head>
<body><main>
{sections.verdict(run)}
<nav aria-label="sections">{links}</nav>
<p class="no-script quiet">The figures of this page are drawn by its script, which has not run.</p>
{"".join(parts.values())}
</main>
<script type="application/json" id="data">{_inert(page_data(run, rewards))}</script>
<script>{script}</script>
</body></html>
"""


def write_report(path: Path, run: FinishedRun, rewards: Rewards | None = None) -> None:
    """Write the page, whole or not at all."""
    draft = path.with_name(path.name + ".draft")
    try:
        draft.write_text(report_html(run, rewards), encoding="utf-8", errors="backslashreplace")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def _inert(data: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script() -> str:
    return '"use strict";\n(() => {\n' + "\n".join(map(_asset, _SCRIPTS)) + "})();\n"


def _asset(name: str) -> str:
    return (files("karenina.report") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
