"""The executor of a Dask cluster. Its workers need volta-pass installed; what it loses it repeats itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext

from ptx_engine.errors import LaunchError


def workers_of(args: argparse.Namespace) -> AbstractContextManager[Executor | None]:
    """The executor that ``--scheduler`` asks for; None for processes of our own. Raises LaunchError for ``--jobs`` beside it."""
    if args.scheduler and args.jobs > 1:
        raise LaunchError("--jobs and --scheduler at once", hint="a cluster has its own number of workers")
    return cluster_executor(args.scheduler) if args.scheduler else nullcontext()


@contextmanager
def cluster_executor(address: str) -> Iterator[Executor]:
    """An executor on the cluster at an address such as ``tcp://host:8786``. Raises LaunchError."""
    try:
        from distributed import Client
    except ImportError:
        raise LaunchError(f"--scheduler {address}: Dask is not installed", hint="pip install 'volta-pass[cluster]'") from None
    try:
        client = Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise LaunchError(f"no Dask scheduler answers at {address}: {error}", hint="dask scheduler prints its address") from None
    with client:
        yield client.get_executor(retries=RETRIES, pure=False)


#: seconds until a scheduler that does not answer counts as absent
_CONNECT_S = 10
#: how often the cluster repeats a task that raised
RETRIES = 0
