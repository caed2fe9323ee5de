"""The parts of the page that are there without its script. Enters: a `FinishedRun`, rewards. Leaves: HTML text.

Names of models, inputs and files are untrusted: every text goes through `_e`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from karenina.printable import printable
from karenina.report.camp_views import CampView, camp_views
from karenina.report.details import pairs_by_interest
from karenina.report.finished import FinishedRun
from karenina.report.rewards import Rewards
from karenina.selection import Selection
from karenina.selection.camps import RULE
from karenina.selection.wording import at_most

__all__ = ["asked", "camps", "iterations", "models", "pair", "rewards_section", "table", "title", "verdict"]

_MOST_NAMES = 24
_MOST_SIDES = 400


def _e(text: object) -> str:
    return escape(printable(str(text)), quote=True)


def title(run: FinishedRun) -> str:
    """Of the browser's window."""
    return _e(f"{run.selection.recommended}: {run.title} · karenina")


def verdict(run: FinishedRun) -> str:
    """Who is to be trusted, and with what guarantee."""
    selection = run.selection
    chips = "".join(
        f'<li class="best">{_e(name)} ★</li>' if name == selection.recommended else f"<li>{_e(name)}</li>"
        for name in selection.survivors
    )
    counts = f"{len(selection.survivors)} of {len(selection.names)} models"
    warnings = [selection.camps.warning, *run.notes[:5]]
    return f"""<header id="verdict">
<p class="eyebrow">karenina · {_e(run.title)}</p>
<h1>{counts} survive</h1>
<p class="lead">Recommended: <strong>{_e(selection.recommended)}</strong>, the survivor that disagrees least with the
others ({_e(selection.recommendation)}). {_badge(selection)}</p>
<ul class="chips" aria-label="survivors">{chips}</ul>
<div class="guarantee"><p>{_e(_capital(str(selection.guarantee)))}.</p>{_undecided(selection)}</div>
{"".join(f'<div class="warning" role="note"><p>⚠ {_e(_capital(text))}.</p></div>' for text in warnings if text)}
<p class="quiet">Agreement is evidence of generalisation, not proof: a majority can agree and be wrong.</p>
<dl class="facts">{_definitions(_facts(run))}</dl>
</header>"""


def _badge(selection: Selection) -> str:
    if selection.certified:
        return '<span class="badge">✓ every removal certified</span>'
    open_steps = sum(not step.certified for step in selection.iterations)
    what = f"{open_steps} of {len(selection.iterations)} iterations" if open_steps else "the end"
    return f'<span class="badge open">△ {what} not certified</span>'


def _undecided(selection: Selection) -> str:
    late = len(selection.guarantee.undecided_pairs)
    return f'<p class="quiet">{late} pairs of survivors are not known to the tolerance.</p>' if late else ""


def _facts(run: FinishedRun) -> Iterable[tuple[str, str]]:
    selection, facts = run.selection, run.facts or {}
    number = len(selection.names)
    yield "distance", selection.distance
    yield "domain", f"{run.domain.size} inputs, {len(run.domain.boxes)} box{'es' if len(run.domain.boxes) > 1 else ''}"
    yield "pairs", f"{selection.exact_pairs} of {number * (number - 1) // 2} to {selection.settings.tolerance:g}"
    yield "time", f"{selection.seconds:.3g} s, {selection.boxes:,} boxes"
    if "version" in facts:
        yield "version", facts["version"]


def _definitions(facts: Iterable[tuple[str, str]]) -> str:
    return "".join(f"<div><dt>{_e(term)}</dt><dd>{_e(text)}</dd></div>" for term, text in facts)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def iterations(selection: Selection) -> str:
    """The steps with their slider, and all of them as a table."""
    rows = [
        [str(s.number), str(len(s.scores)), ", ".join(r.name for r in s.removed), _reasons(s.removed), str(s.certainty)]
        for s in selection.iterations
    ]
    head = ["iteration", "models", "removed", "why", "decided"]
    notes = "".join(f'<p class="quiet">{_e(_capital(note))}.</p>' for note in selection.notes)
    return f"""<section id="iterations"><h2>Who left, and why</h2>
<p>Each iteration scores every model by its mean disagreement with those still in, and removes the highest scores. Bars
are certified intervals: a removal is certified when no values inside them could change it.</p>
<p class="controls"><button id="back" type="button">◀ Back</button>
<input id="step" type="range" min="0" max="0" value="0" step="1" aria-label="iteration">
<button id="forth" type="button">Next ▶</button></p>
<p><strong id="step-title"></strong> · <span id="step-count"></span></p>
<p id="step-why" aria-live="polite"></p>
<div id="scores" class="panel scrolls" tabindex="0" role="region" aria-label="scores"></div>
<details><summary>All iterations as a table</summary>{_table(head, rows)}
<p>Then it stopped: {_e(selection.stop.reason)} ({_e(selection.stop.certainty)}).</p></details>{notes}</section>"""


def _reasons(removed: Sequence[object]) -> str:
    return "; ".join(dict.fromkeys(str(getattr(removal, "reason", "")) for removal in removed))


def table(selection: Selection) -> str:
    """The heat map."""
    camps_option = "by clustering" + (" (camps framed)" if selection.camps.camps else "")
    return f"""<section id="table"><h2>How far apart any two can be</h2>
<p>Every cell is a pair of models. Point at one to read its interval; click it to see where the two differ. With the
keyboard: arrow keys move, Enter opens. A marked corner is a pair measured only as exactly as the decisions needed; a
hatched pair has a note.</p>
<p class="controls"><label>Order <select id="order"><option value="removal">by removal (survivors framed)</option>
<option value="clustering">{camps_option}</option><option value="given">as given</option></select></label>
<label>Show <select id="bound"><option value="lower">disagree by at least</option>
<option value="upper">disagree by at most</option></select></label></p>
<div class="panel beside"><div class="grow"><canvas id="heat" tabindex="0" role="application"
aria-label="disagreement of all pairs: arrow keys move, Enter opens a pair" aria-describedby="heat-text"></canvas></div>
<aside><div id="heat-bar"></div><p id="heat-text" aria-live="polite"></p></aside>
</div></section>"""


def pair(run: FinishedRun) -> str:
    """Two models and their witness; the pair behind the guarantee is open at first."""
    places = _opened(run)
    return f"""<section id="pair" data-open="[{places[0]}, {places[1]}]"><h2 id="pair-title">A pair</h2>
<p class="controls"><label>First <select id="choose-first"></select></label>
<label>Second <select id="choose-second"></select></label></p>
<p id="pair-words" aria-live="polite"></p>
<p class="quiet">Each plot moves one input through the domain while the others stay at the witness (dotted line).</p>
<div id="pair-view"></div></section>"""


def _opened(run: FinishedRun) -> tuple[int, int]:
    """The pair to begin with: the one behind the guarantee, or the most interesting one with a witness."""
    selection = run.selection
    first, second = sorted(selection.names.index(name) for name in selection.guarantee.pair)
    interesting = [(first, second), *pairs_by_interest(run)]
    known = selection.table.pairs
    seen = (pair for pair in interesting if pair in known and known[pair].witness is not None)
    return next(seen, interesting[-1])


def camps(run: FinishedRun) -> str:
    """The camps and what they say where they differ; nothing where there are none."""
    found = run.selection.camps
    if not found.camps:
        return ""
    items = "".join(
        f"<li><strong>Camp {k}</strong>{' (the survivors)' if k - 1 == found.survivors else ''}: "
        f"{_e(_some(camp.members))}. "
        f"<span class='quiet'>They disagree by at most {_e(at_most(camp.upper, 4))}.</span></li>"
        for k, camp in enumerate(found.camps, 1)
    )
    alone = f"<p>In no camp: {_e(_some(found.alone))}.</p>" if found.alone else ""
    views = "".join(_camp_view(run, view) for view in camp_views(run))
    return f"""<section id="camps"><h2>Camps</h2>
<p>Groups of models that agree among themselves, and less with each other. Which group is right, agreement cannot say:
look at the inputs below, or start a simulator there.</p><ul>{items}</ul>{alone}{views}
<p class="quiet">Rule: {_e(RULE)}. Mean silhouette here: {found.silhouette:.2f}.</p></section>"""


def _some(names: Sequence[str]) -> str:
    """As many as a reader takes in; the table of models has all."""
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _camp_view(run: FinishedRun, view: CampView) -> str:
    names = run.selection.names
    places = ",".join(str(names.index(name)) for name in view.pair)
    where = ", ".join(f"{label} = {value:.4g}" for label, value in zip(run.domain.labels, view.witness, strict=True))
    rows = [
        [f"camp {camp + 1}", *(f"{low:.4g} to {high:.4g}" for low, high in zip(a.min(0), a.max(0), strict=True))]
        for camp, a in zip(view.camps, view.answers, strict=True)
    ]
    outputs = [f"y{k}" for k in range(view.answers[0].shape[1])] if view.answers[0].shape[1] > 1 else ["outputs"]
    first, second = (camp + 1 for camp in view.camps)
    return f"""<h3>Camps {first} and {second}</h3>{_table(["at this input", *outputs], rows)}
<p class="quiet">{_e(where)}</p><p class="screen-only"><button type="button" data-pair="{places}">Show
{_e(view.pair[0])} and {_e(view.pair[1])} here</button></p>"""


def rewards_section(rewards: Rewards | None) -> str:
    """Rewards, where they are known."""
    if rewards is None:
        return ""
    threshold = f" Good means above {rewards.threshold:g} (dashed)." if rewards.threshold is not None else ""
    return f"""<section id="rewards"><h2>What they earned</h2>
<p>The selection did not know these ({_e(rewards.setting)}). Dots are good models, crosses bad ones; survivors are
circled.{_e(threshold)}</p><div id="rewards-figures" class="cards wide"></div></section>"""


def models(run: FinishedRun, rewards: Rewards | None) -> str:
    """A line for every model."""
    selection = run.selection
    gone = {removal.name: step.number for step in selection.iterations for removal in step.removed}
    last = {name: score for step in selection.iterations for name, score in step.scores.items()} | dict(
        selection.scores
    )
    camp = {name: str(k) for k, own in enumerate(selection.camps.camps, 1) for name in own.members}
    columns = [*(["camp"] if camp else []), *(["reward", "good"] if rewards else [])]
    head = ["model", "fate", "last score", *columns, "SHA-256", "file"]
    rows = []
    for name in selection.names:
        fate = f"removed in iteration {gone[name]}" if name in gone else "survives"
        fate += ", recommended" if name == selection.recommended else ""
        more = [*([camp.get(name, "")] if camp else []), *(_earned(rewards, name) if rewards else [])]
        digest, file = (run.digests or {}).get(name, "")[:12], (run.files or {}).get(name, "")
        rows.append([name, fate, f"{last[name][0]:.4g} to {at_most(last[name][1], 4)}", *more, digest, file])
    return f"""<section id="models"><h2>All models</h2>{_table(head, rows)}</section>"""


def _earned(rewards: Rewards, name: str) -> list[str]:
    if name not in rewards.earned:
        return ["", ""]
    return [f"{rewards.earned[name]:.4g}", {True: "yes", False: "no", None: ""}[rewards.good.get(name)]]


def asked(run: FinishedRun) -> str:
    """What was asked, so that it can be asked again, and how to read the page."""
    settings = run.selection.settings.to_dict()
    rows = [[term, text] for term, text in (run.facts or {}).items()]
    rows += [
        ["distance", run.selection.distance],
        *([["conditions", ", ".join(run.conditions)]] if run.conditions else []),
    ]
    rows += [[name.replace("_", " "), str(value)] for name, value in settings.items() if value is not None]
    boxes = [
        [f"box {k}", label, f"{low:g}", f"{high:g}"]
        for k, box in enumerate(run.domain.boxes, 1)
        for label, low, high in zip(run.domain.labels, box.lower, box.upper, strict=True)
    ]
    many = f" (the first {_MOST_SIDES} of {len(boxes)} intervals)" if len(boxes) > _MOST_SIDES else ""
    return f"""<section id="asked"><h2>What was asked</h2>{_table(["setting", "value"], rows)}
<details><summary>The domain{many}</summary>{_table(["", "input", "from", "to"], boxes[:_MOST_SIDES])}</details>
<details><summary>How to read this page</summary>
<p>The disagreement of two models is the largest distance of their outputs on any input of the domain. It is known as an
interval: at the witness, an input found by the search, they are as far apart as its lower end; and no input, as was
shown by bounds over the whole domain, takes them farther than its upper end. The bounds are about the networks in real
arithmetic and allow for rounding. The c-distance counts only inputs on which both outputs satisfy a condition, the
class distance only inputs on which two models choose different classes.</p>
<p>A score is the mean of a model's disagreements with the models still in. The idea of the method is that models which
generalise agree with each other, while each of the others goes wrong in its own way.</p></details></section>"""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "".join(f"<th>{_e(title)}</th>" for title in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    """Short texts stay on one line, and so does a path; prose is folded."""
    return f'<td class="{"text" if len(text) > 40 and " " in text else "long"}">{_e(text)}</td>'
