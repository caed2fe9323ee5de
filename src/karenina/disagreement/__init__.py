"""How far networks disagree on a domain: a pair (`pairwise`), many pairs (`measure`), all pairs (`table`).

Enters: networks, a domain, a distance. Leaves: certified intervals with witnesses.
"""

from karenina.disagreement.measure import Measure, PairTask, check_population, measure_here
from karenina.disagreement.pairwise import Disagreement, pairwise_disagreement_threshold
from karenina.disagreement.results import PairResults
from karenina.disagreement.table import DisagreementTable, disagreement_table

__all__ = [
    "Disagreement",
    "DisagreementTable",
    "Measure",
    "PairResults",
    "PairTask",
    "check_population",
    "disagreement_table",
    "measure_here",
    "pairwise_disagreement_threshold",
]
