"""The lead passes from stock to ours and back through the shared lease, while pods arrive."""

import collections
import contextlib
import itertools
import signal

import pytest

from tests.fakeapi.api_client import ApiClient
from tests.realcluster.cluster import RealCluster
from tests.realcluster.conftest import Note
from tests.realcluster.workload import LEASE, Workload, leader, names_bound_twice

#: Two fifths of the default times.
TIMES = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=800ms",
)
#: The pods that are bound while one leads, before it ends.
SHARE = 150


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=lambda end: end.name)
async def test_stock_to_ours_to_stock(
    cluster: RealCluster, api: ApiClient, note_figures: Note, end: signal.Signals
) -> None:
    cluster.nodes(20)
    pods = Workload(cluster, api)
    holders, holder, done = [], "", 0
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(cluster.scheduler("stock", *TIMES))
        holder = await leader(api)
        async with pods.arriving(every_seconds=0.02):
            for follows in ("ours", "stock", None):
                holders.append((running, holder))
                done = len(await pods.bound(done + SHARE))
                if follows is not None:
                    waiting = stack.enter_context(cluster.scheduler(follows, *TIMES))
                    running.signal(end)
                    running, holder = waiting, await leader(api, but_not=holder)
                    done = len(await pods.bound(done))
        await pods.bound()
    assert len({holder for _, holder in holders}) == 3
    assert (await api.get(LEASE)).body["spec"]["leaseTransitions"] == 2
    bindings = await pods.all_bindings()
    assert not names_bound_twice(bindings)
    assert sum(each.code == 201 for each in bindings) == len(pods.created)
    by_program = collections.Counter(each.program for each in bindings if each.code == 201)
    # A leader may bind a few pods more while it ends.
    assert by_program["ours"] >= SHARE // 2
    assert by_program["stock"] >= SHARE
    times = {}
    for before, after in itertools.pairwise(bindings):
        if before.program != after.program:
            times[f"to {after.program}"] = round(after.seconds - before.seconds, 1)
    refused = collections.Counter(each.program for each in bindings if each.code != 201)
    for kind in ("ours", "stock"):
        cpu = sum(process.cpu_seconds for process, _ in holders if process.name == kind)
        note_figures(
            kind,
            pods_bound=by_program[kind],
            seconds_without_a_binding=times[f"to {kind}"],
            bindings_refused=refused[kind],
            cpu_seconds=round(cpu, 1),
        )
