"""Workers of a Dask cluster as an executor of concurrent.futures. dask.distributed is imported only here, when one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

Answer = TypeVar("Answer")

CONNECT_S: Final = 10
FIRST_WORKER_S: Final = 120
"""How long a cluster may take to start its first worker: a queue, or a node that boots."""


class ClusterError(Exception):
    """The cluster cannot be used; the text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A connected cluster: `pool` runs functions on any worker, `ask_all` on every one."""

    pool: Executor
    client: Any

    def ask_all(self, function: Callable[..., Answer], *arguments: object) -> dict[str, Answer]:
        """What `function` answers on each worker, by its address. Raises ClusterError when a worker cannot run it."""
        try:
            # Waits until the cluster has a worker: one that grows on demand begins without.
            self.client.submit(function, *arguments, pure=False).result(timeout=FIRST_WORKER_S)
            answers: dict[str, Answer] = self.client.run(function, *arguments)
        except TimeoutError:
            raise ClusterError(f"no worker took a task within {FIRST_WORKER_S} s: start workers first") from None
        except ImportError as error:
            raise ClusterError(f"a worker or the scheduler lacks a package ({error}): install the same there") from None
        except (OSError, RuntimeError) as error:
            raise ClusterError(f"a worker cannot be used: {error}") from None
        return answers

    @staticmethod
    def gave_up(error: BaseException) -> bool:
        """The scheduler tried a task on several workers, each of which died over it."""
        from distributed import KilledWorker

        return isinstance(error, KilledWorker)


@contextmanager
def cluster(scheduler: str) -> Iterator[Cluster]:
    """Connect to a scheduler by its address (`tcp://head:8786`) or the path of its JSON file. Raises ClusterError."""
    try:
        from distributed import Client
    except ImportError:
        raise ClusterError("--scheduler needs dask.distributed: pip install 'postmortem-gpu[cluster]'") from None
    where = {"scheduler_file": scheduler} if Path(scheduler).is_file() else {"address": scheduler}
    try:
        client = Client(**where, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise ClusterError(f"no scheduler answers at {scheduler}: {why[0]}") from None
    try:
        # pure=False: Dask would take a second try of the same batch for the first.
        yield Cluster(client.get_executor(pure=False), client)
    finally:
        client.close()
