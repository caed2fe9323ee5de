"""A worker process. Enters: `Work`, then tasks, over a connection. Leaves: each task's answer, the moment it is there.

It ends when the connection does, also in the middle of a measurement: nobody would read the answer. It ends, too, when
its memory is not enough: what is left of it is in pieces, and its task is given to a new process.
"""

from __future__ import annotations

import os
import pickle
import queue
import threading
from multiprocessing.connection import Connection
from typing import Any

from karenina.disagreement import Disagreement, Measure, PairTask
from karenina.errors import InputError, KareninaError
from karenina.execution.memory import OUT_OF_MEMORY, out_of_memory

__all__ = ["serve"]


def serve(connection: Connection, work: bytes) -> None:
    """Answer the tasks that come over the connection; `work` is a pickled `Work`."""
    import torch

    torch.set_num_threads(1)  # the processes share the machine: threads would fight
    tasks: queue.SimpleQueue[PairTask] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, tasks), daemon=True).start()
    try:
        measure = pickle.loads(work).here()
    except Exception as error:
        _send(connection, _told(error))
        return
    _send(connection, None)  # ready
    while True:
        _send(connection, _answer(measure, tasks.get()))


def _listen(connection: Connection, tasks: queue.SimpleQueue[PairTask]) -> None:
    try:
        while True:
            tasks.put(pickle.loads(connection.recv_bytes()))
    except (EOFError, OSError):
        os._exit(0)
    except MemoryError:  # nobody else would listen: the process would wait for ever
        os._exit(OUT_OF_MEMORY)


def _answer(measure: Measure, task: PairTask) -> Disagreement | Exception:
    try:
        ((_, found),) = measure([task])
        return found
    except Exception as error:
        return _told(error)


def _told(error: Exception) -> Exception:
    """What to send for an error; where memory was not enough, the end of this process."""
    if out_of_memory(error):
        os._exit(OUT_OF_MEMORY)
    return _portable(error)


def _portable(error: Exception) -> Exception:
    """The error, or one of its kind that can be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        told = InputError if isinstance(error, KareninaError) else RuntimeError
        return told(str(error) if told is InputError else f"{type(error).__name__}: {error}")
    return error


def _send(connection: Connection, message: Any) -> None:
    try:
        connection.send_bytes(pickle.dumps(message))
    except OSError:  # the other end is gone
        os._exit(0)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
