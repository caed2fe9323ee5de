"""Measuring on many processes of this machine. Enters: `Work` and a number of processes. Leaves: a `Measure`.

Each process is a fresh interpreter (nothing is forked, so threads and GPUs are safe), gets the networks once, and
computes in one thread. Whoever is free gets the next task; answers are passed on as they arrive. When a process
dies, killed or out of memory, its task goes to another one, at most `ATTEMPTS` times. Where the system starts no more
processes, those there are do the work.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait

from karenina.disagreement import Disagreement, Measure, PairTask
from karenina.errors import InputError, WorkStopped
from karenina.execution.memory import OUT_OF_MEMORY
from karenina.execution.work import Work

__all__ = ["ATTEMPTS", "cores", "processes"]

ATTEMPTS = 3  # at a task, or at starting a process
_AHEAD = 2  # tasks a process has: the one it works on, and the next
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def cores() -> int:
    """The processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def processes(work: Work, jobs: int) -> Iterator[Measure]:
    """A measure on that many processes (0: one for every core). They start when they are first needed."""
    if jobs < 0:
        raise InputError(f"the number of processes must be 0 (one for every core) or more, not {jobs}")
    pool = _Pool(work, jobs or cores())
    try:
        yield pool
    finally:
        pool.stop()


# The work is read before torch is imported: who sends it need not wait for that.
_PROGRAM = """
import sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
try:
    work = connection.recv_bytes()
except (EOFError, OSError):
    sys.exit()
sys.path[:] = PATH
from karenina.execution.worker import serve
serve(connection, work)
"""


def _started(connection: int) -> subprocess.Popen[bytes]:
    """A process that serves at the connection."""
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.replace("PATH", repr(sys.path)), str(connection)],
        pass_fds=[connection],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # ours is for results
        env={**os.environ, **_ONE_THREAD},
        start_new_session=True,  # Ctrl-C is for us: we stop them
    )


class _Worker:
    """A worker process, and the tasks it has, in the order it was given them."""

    def __init__(self, work: bytes) -> None:
        self.connection, theirs = Pipe()
        try:
            self.process = _started(theirs.fileno())
        except OSError:
            self.connection.close()
            raise
        finally:
            theirs.close()
        self.tasks: deque[PairTask] = deque()
        self.ready = False
        self.send(work)

    def send(self, message: bytes) -> None:
        try:
            self.connection.send_bytes(message)
        except OSError:  # it died: reading from it will tell
            return

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.wait()


class _Pool:
    """Workers, started when there is work for them."""

    def __init__(self, work: Work, size: int) -> None:
        self._work, self._size = work, size
        self._setup = b""
        self._workers: dict[Connection, _Worker] = {}
        self._failed_starts = 0

    def __call__(self, tasks: Sequence[PairTask]) -> Iterator[tuple[PairTask, Disagreement]]:
        waiting, lost = deque(tasks), Counter[PairTask]()
        try:
            while waiting or any(worker.tasks for worker in self._workers.values()):
                self._staff(len(waiting))
                self._hand_out(waiting)
                yield from self._collect(waiting, lost)
        finally:
            if any(worker.tasks for worker in self._workers.values()):
                self.stop()  # nobody waits for these answers any more, and the next call must not see them

    def stop(self) -> None:
        while self._workers:
            self._workers.popitem()[1].stop()

    def _staff(self, waiting: int) -> None:
        """As many workers as can be kept busy."""
        self._setup = self._setup or pickle.dumps(self._work)
        idle = sum(not worker.tasks for worker in self._workers.values())
        for _ in range(min(self._size - len(self._workers), waiting - idle)):
            try:
                worker = _Worker(self._setup)
            except OSError as error:
                self._do_with_fewer(error)
                return
            self._workers[worker.connection] = worker

    def _do_with_fewer(self, error: OSError) -> None:
        """No more processes can be started: there is no memory for them, or a limit is reached."""
        if not self._workers:
            reason = error.strerror or error
            raise WorkStopped(f"no worker process can be started ({reason}): what was measured is kept") from error
        self._size = len(self._workers)

    def _hand_out(self, waiting: deque[PairTask]) -> None:
        """First a task for everyone, then one ahead."""
        for most in range(1, _AHEAD + 1):
            for worker in self._workers.values():
                if waiting and len(worker.tasks) < most:
                    task = waiting.popleft()
                    worker.tasks.append(task)
                    worker.send(pickle.dumps(task))

    def _collect(self, waiting: deque[PairTask], lost: Counter[PairTask]) -> Iterator[tuple[PairTask, Disagreement]]:
        """Wait for messages; the answers among them."""
        for connection in wait(list(self._workers)):
            assert isinstance(connection, Connection)
            worker = self._workers[connection]
            try:
                message = pickle.loads(connection.recv_bytes())
            except (EOFError, OSError):
                self._bury(worker, waiting, lost)
                continue
            if isinstance(message, Exception):
                raise message
            if message is None:
                worker.ready, self._failed_starts = True, 0
            else:
                yield worker.tasks.popleft(), message

    def _bury(self, worker: _Worker, waiting: deque[PairTask], lost: Counter[PairTask]) -> None:
        """A worker died: its tasks go back to the front; the one it worked on has one attempt less."""
        del self._workers[worker.connection]
        worker.stop()
        if not worker.ready:
            self._failed_starts += 1
        elif worker.tasks:
            lost[worker.tasks[0]] += 1
        if self._failed_starts >= ATTEMPTS:
            raise WorkStopped(f"worker processes end before they are ready ({_end(worker)})")
        for task, times in lost.items():
            if times >= ATTEMPTS:
                pair = self._work.pair(task.first, task.second)
                raise WorkStopped(f"{times} worker processes died while measuring {pair}, the last: {_end(worker)}")
        waiting.extendleft(reversed(worker.tasks))
        worker.tasks.clear()


def _end(worker: _Worker) -> str:
    """How a worker process ended, in words."""
    code = worker.process.returncode
    if code == OUT_OF_MEMORY:
        return "out of memory; fewer --jobs leave more for each"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}, perhaps for want of memory"
    return f"exit code {code}"
