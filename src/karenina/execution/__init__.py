"""Who measures pairs: this process (`Work.here`), many processes (`processes`), a Ray cluster (`cluster`).

Enters: `Work`, all that measuring takes. Leaves: a `Measure`, with the same answers whoever gives them.
"""

from karenina.execution.cluster import cluster
from karenina.execution.processes import processes
from karenina.execution.work import Work

__all__ = ["Work", "cluster", "processes"]
