"""What a selection found, to look at.

Enters: a finished run's folder (`finished`), or a `Selection` with its networks and domain. Leaves: one self-contained
HTML page (`html`), figures as files (`figures` has their data, `drawing` draws), and a pair explained in text
(`explanation`).

    finished     the folder of a run -> a `FinishedRun`
    rewards      rewards.csv, or a population's manifest -> `Rewards`
    ordering     the order of the models in a table
    slices       two networks along lines and a plane through a witness
    details      those of all pairs, as many as there is room for, packed
    camp_views   what the members of the camps say on the witnesses between them
    content      the data of the page
    html         the page; its script and style are in `page/`
"""

from karenina.report.finished import FinishedRun, read_run
from karenina.report.html import report_html, write_report
from karenina.report.rewards import Rewards, read_rewards, rewards_for

__all__ = ["FinishedRun", "Rewards", "read_rewards", "read_run", "report_html", "rewards_for", "write_report"]
