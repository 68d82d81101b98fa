"""The options of the command line for actors."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Final

import click

from fakeapi.types.durations import parse_duration
from fakeapi.types.option import option

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from fakeapi.server import FakeApiServer

#: The parameter of `Actors` for each name on the command line.
_PARAMETERS: Final = {
    "kubelet": "kubelet",
    "node-lifecycle": "node_lifecycle",
    "gc": "garbage_collector",
    "owners": "owners",
    "endpoints": "endpoints",
    "pdb": "disruption_budgets",
    "volumes": "volumes",
    "devices": "devices",
    "elections": "elections",
}


def _names(value: str) -> tuple[str, ...]:
    names = value.replace(" ", "").split(",")
    if names == ["all"]:
        return tuple(_PARAMETERS)
    unknown = [name for name in names if name not in _PARAMETERS]
    if unknown:
        raise ValueError(f"{unknown[0]!r}: expected all, or some of {', '.join(_PARAMETERS)}")
    return tuple(names)


def _seconds(value: str) -> float:
    seconds = parse_duration(value)
    if seconds < 0:
        raise ValueError(f"{value!r}: expected 0 or more")
    return seconds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ActorOptions:
    """The values of the flags."""

    names: tuple[str, ...] = option(
        (),
        f"Actors to run beside the server: all, or some of {','.join(_PARAMETERS)}.",
        flag="--actors",
        metavar="NAMES",
        repeated=False,
        parse=_names,
    )
    pods_complete_after: float | None = option(
        None,
        "Let containers of pods with restartPolicy Never or OnFailure exit with 0 after this time "
        "(30s, 5m), if the pod has no annotation for it. Needs the actor kubelet.",
        metavar="DURATION",
        parse=_seconds,
    )
    provisioners: tuple[str, ...] = option(
        (),
        "Create volumes for claims whose class has this provisioner. May be repeated. Needs the "
        "actor volumes.",
        flag="--provisioner",
        metavar="NAME",
    )
    actor_events: bool = option(True, "Let actors write the events that kubectl describe shows.")

    def check(self) -> None:
        """Raise click.UsageError if a flag needs an actor that is not chosen."""
        if self.pods_complete_after is not None and "kubelet" not in self.names:
            raise click.UsageError("--pods-complete-after is for --actors kubelet")
        if self.provisioners and "volumes" not in self.names:
            raise click.UsageError("--provisioner is for --actors volumes")

    def actors(self, server: FakeApiServer) -> AbstractAsyncContextManager[object]:
        """Return the actors for a server."""
        if not self.names:
            return contextlib.nullcontext()
        from fakeapi.actors import Actors, KubeletOptions, VolumeOptions  # a tenth of the start

        chosen: dict[str, Any] = {_PARAMETERS[name]: True for name in self.names}
        if self.pods_complete_after is not None:
            chosen["kubelet"] = KubeletOptions(pods_complete_after_seconds=self.pods_complete_after)
        if self.provisioners:
            chosen["volumes"] = VolumeOptions(provisioners=frozenset(self.provisioners))
        return Actors(server, events=self.actor_events, **chosen)
