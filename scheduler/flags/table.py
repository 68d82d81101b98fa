"""The table of all flags: kube-scheduler's names, types and defaults, and ours.

`flags.json` has the flags by the headings of their groups; some exist since a version. Flags marked
"No effect" are accepted and checked, and have nothing to act on here: there is no HTTP/2, no
protobuf, no goroutine and no block profile.
Source: kube-scheduler `app/options/options.go`, `deprecated.go`, and the `AddFlags` of apiserver
`pkg/server/options` and of component-base. The last group is ours.
"""

from __future__ import annotations

import functools
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.config.feature_gates import help_lines
from scheduler.flags.flag_set import TYPES, Flag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.config import SchedulerVersion

_TABLE: Final = Path(__file__).with_name("flags.json")
#: The usage of this flag ends with a line for each gate.
_FEATURE_GATES: Final = "feature-gates"


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    usage: str
    default: str = ""
    shorthand: str = ""
    since: int = 0

    def flag(self, name: str, version: SchedulerVersion) -> Flag:
        usage = self.usage
        if name == _FEATURE_GATES:
            usage = "\n".join([usage, "Options are:", *help_lines(version)])
        return Flag(name, TYPES[self.type], self.default, usage, self.shorthand)


_ROWS: Final = msgspec.json.decode(_TABLE.read_bytes(), type=dict[str, dict[str, _Row]])


@functools.cache
def flags_of(version: SchedulerVersion) -> Mapping[str, Sequence[Flag]]:
    """Return the flags of a version, by the heading of their group."""
    return MappingProxyType(
        {
            heading: tuple(
                row.flag(name, version) for name, row in rows.items() if row.since <= version
            )
            for heading, rows in _ROWS.items()
        }
    )
