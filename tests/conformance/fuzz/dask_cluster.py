"""A factory for `--executor`: a Dask cluster on this machine."""

from concurrent.futures import Executor

from distributed import Client, LocalCluster


def executor() -> Executor:
    """A cluster of one worker on this machine."""
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    )
    found: Executor = Client(cluster).get_executor()
    return found
