"""The flag of the command line that says which actors live beside the server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fakeapi.actors.cluster import Actors
from fakeapi.actors.volumes import VolumeOptions

if TYPE_CHECKING:
    from fakeapi.server import FakeApiServer

#: What each name on the command line is called in `Actors`.
_NAMES: Final = {
    "kubelet": "kubelet",
    "node-lifecycle": "node_lifecycle",
    "gc": "garbage_collector",
    "owners": "owners",
    "pdb": "disruption_budgets",
    "volumes": "volumes",
}


def _chosen(_context: object, _parameter: object, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    names = value.replace(" ", "").split(",")
    if names == ["all"]:
        return tuple(_NAMES)
    unknown = [name for name in names if name not in _NAMES]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r}: expected all, or some of {', '.join(_NAMES)}")
    return tuple(names)


actors_option = click.option(
    "--actors",
    metavar="NAMES",
    callback=_chosen,
    help=f"Actors that live beside the server: all, or some of {','.join(_NAMES)}.",
)
provisioner_option = click.option(
    "--provisioner",
    "provisioners",
    metavar="NAME",
    multiple=True,
    help="Make volumes for claims whose class has this provisioner. May be repeated.",
)
stages_option = click.option(
    "--stages",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Play the KWOK Stages of this YAML file or directory. May be repeated.",
)

actor_events_option = click.option(
    "--actor-events/--no-actor-events",
    default=True,
    show_default=True,
    help="Whether actors write the events that kubectl describe shows.",
)


def actors_of(
    server: FakeApiServer,
    names: tuple[str, ...],
    provisioners: tuple[str, ...],
    stages: tuple[Path, ...] = (),
    *,
    events: bool = True,
) -> Actors:
    """The actors that were asked for. Raises click.UsageError, or StageError."""
    wishes: dict[str, Any] = {_NAMES[name]: True for name in names}
    if provisioners:
        if "volumes" not in names:
            raise click.UsageError("--provisioner is for --actors volumes")
        wishes["volumes"] = VolumeOptions(provisioners=frozenset(provisioners))
    return Actors(server, stages=stages, events=events, **wishes)
