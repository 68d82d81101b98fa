"""The table of all flags: kube-scheduler v1.36.3's names, types and defaults, and ours.

`flags.json` has the flags by the headings of their groups. Flags marked "No effect" are accepted
and checked, and have nothing to act on here: there is no HTTP/2, no protobuf, no goroutine and no
block profile.
Source: kube-scheduler `app/options/options.go`, `deprecated.go`, and the `AddFlags` of apiserver
`pkg/server/options` and of component-base. The last group is ours.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.config.feature_gates import help_lines
from scheduler.flags.flag_set import TYPES, Flag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TABLE: Final = Path(__file__).with_name("flags.json")
#: The usage of this flag ends with a line for each gate.
_FEATURE_GATES: Final = "feature-gates"


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    usage: str
    default: str = ""
    shorthand: str = ""

    def flag(self, name: str) -> Flag:
        usage = self.usage
        if name == _FEATURE_GATES:
            usage = "\n".join([usage, "Options are:", *help_lines()])
        return Flag(name, TYPES[self.type], self.default, usage, self.shorthand)


_ROWS: Final = msgspec.json.decode(_TABLE.read_bytes(), type=dict[str, dict[str, _Row]])

#: All flags, by the heading of their group.
FLAGS: Final[Mapping[str, Sequence[Flag]]] = MappingProxyType(
    {
        heading: tuple(row.flag(name) for name, row in rows.items())
        for heading, rows in _ROWS.items()
    }
)
