"""Selection (the paper's Alg. 2): which networks of a population agree with each other on a domain.

Enters: networks, a domain, a distance, settings, and who measures pairs. Leaves: a `Selection`: the survivors, the
guarantee for them, and every removal with its evidence.
"""

from karenina.selection.camps import Camp, Camps, Divide, find_camps
from karenina.selection.result import Certainty, Guarantee, Iteration, Removal, Selection, Stop
from karenina.selection.select import Progress, select
from karenina.selection.selector import Selector
from karenina.selection.settings import CRITERIA, SelectionOptions, SelectionSettings

__all__ = [
    "CRITERIA",
    "Camp",
    "Camps",
    "Certainty",
    "Divide",
    "Guarantee",
    "Iteration",
    "Progress",
    "Removal",
    "Selection",
    "SelectionOptions",
    "SelectionSettings",
    "Selector",
    "Stop",
    "find_camps",
    "select",
]
