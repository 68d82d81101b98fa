"""The flags of the command line for actors."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fakeapi.types.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from fakeapi.server import FakeApiServer

_R = TypeVar("_R")
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
}


def _names(_context: object, _parameter: object, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    names = value.replace(" ", "").split(",")
    if names == ["all"]:
        return tuple(_PARAMETERS)
    unknown = [name for name in names if name not in _PARAMETERS]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r}: expected all, or some of {', '.join(_PARAMETERS)}"
        )
    return tuple(names)


def _duration(_context: object, _parameter: object, value: str | None) -> float | None:
    try:
        seconds = None if value is None else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if seconds is not None and seconds < 0:
        raise click.BadParameter(f"{value!r}: expected 0 or more")
    return seconds


_OPTIONS: Final = (
    click.option(
        "--actors",
        "names",
        metavar="NAMES",
        callback=_names,
        help=f"Actors to run beside the server: all, or some of {','.join(_PARAMETERS)}.",
    ),
    click.option(
        "--pods-complete-after",
        metavar="DURATION",
        callback=_duration,
        help="Let containers of pods with restartPolicy Never or OnFailure exit with 0 after this "
        "time (30s, 5m), if the pod has no annotation for it. Needs the actor kubelet.",
    ),
    click.option(
        "--provisioner",
        "provisioners",
        metavar="NAME",
        multiple=True,
        help="Create volumes for claims whose class has this provisioner. May be repeated. Needs "
        "the actor volumes.",
    ),
    click.option(
        "--actor-events/--no-actor-events",
        default=True,
        show_default=True,
        help="Let actors write the events that kubectl describe shows.",
    ),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ActorOptions:
    """The values of the flags."""

    names: tuple[str, ...] = ()
    pods_complete_after: float | None = None
    provisioners: tuple[str, ...] = ()
    actor_events: bool = True

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


def actor_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Add the flags to a command, which gets their values as its argument `actors`."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> _R:
        fields = [field.name for field in dataclasses.fields(ActorOptions)]
        actors = ActorOptions(**{name: given.pop(name) for name in fields})
        actors.check()
        return command(actors=actors, **given)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
