"""Who measures pairs: this process (`Work.here`), many processes (`processes`), a Ray cluster (`cluster`).

Enters: `Work`, all that measuring takes. Leaves: a `Measure`, with the same answers whoever gives them.
"""

from karenina.execution.memory import out_of_memory
from karenina.execution.process_pool import cores, processes
from karenina.execution.ray_cluster import cluster
from karenina.execution.work import Work

__all__ = ["Work", "cluster", "cores", "out_of_memory", "processes"]
