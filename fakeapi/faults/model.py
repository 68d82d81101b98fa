"""Faults as values: an effect, its requests (match), and its times (schedule).

    Fault(match=Match(verb="create", resource="pods/binding"), when=When(nth=1),
          answer=AnswerWith(code=500, after_write=True))

is in YAML

    match: {verb: create, resource: pods/binding}
    when: {nth: 1}
    answer: {code: 500, after_write: true}

A fault has exactly one effect. The effects are of three families:

    of a request     delay, answer, reset, garble, stale, expire, refuse_watch_list, observe
    of a watch       stall, cut, duplicate, lose, outdated, retype, strip
    of the server    drop_watches, outage, restart, compact

Effects of a watch are decided event by event: `match` then includes the event (its object's
namespace and name, its type), and `when` counts events. Effects of the server happen once, at the
beginning of the schedule's time.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

#: Matches the moment before the first event; it is never sent.
OPENED: Final = "OPENED"
#: The bookmark that ends the initial events of a watch-list; it is not just any BOOKMARK.
INITIAL_EVENTS_END: Final = "INITIAL_EVENTS_END"
EVENT_TYPES: Final = (
    "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", INITIAL_EVENTS_END, OPENED,
)  # fmt: skip

_VERBS: Final = (
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
)  # fmt: skip
_ENDS: Final = ("eof", "reset", "truncate", "expired", "error")
_GARBLES: Final = ("truncated", "not_json", "empty")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
#: A maximum that timers of every platform accept.
_SECONDS_MAX: Final = 1e8


class FaultError(Exception):
    """An invalid fault. The text is one line with the field and the expected value."""


def texts(value: str | list[str]) -> list[str]:
    """Return one text or several as a list."""
    return [value] if isinstance(value, str) else value


def _one_of(field: str, value: str, names: tuple[str, ...]) -> None:
    if value not in names:
        raise ValueError(f"expected {field} to be one of {', '.join(names)}; got {value!r}")


def _at_least(field: str, value: int, minimum: int) -> None:
    if value < minimum:
        raise ValueError(f"expected {field} to be {minimum} or more, got {value}")


def _seconds(field: str, value: float) -> None:
    if not 0.0 <= value <= _SECONDS_MAX:
        raise ValueError(f"expected {field} to be a number of seconds, got {value:g}")


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a fault; unknown fields have no place in it."""


class Match(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """The requests, or the events of watches, that a fault applies to; empty fields match all.

    `resource` is a pattern for `pods`, `pods/binding`, `leases.coordination.k8s.io`; `*` is all of
    them. `path` is for paths that are no resource (`/version`). `namespace` and `name` are the
    object's, `client` is the User-Agent, or the header `X-Fakeapi-Client` if it is sent. All of
    these are patterns with `*`, `?` and `[...]`. `initial_events` is True for watches that begin
    with the state (watch-lists), False for other requests.
    """

    verb: str | list[str] = []
    resource: str | list[str] = []
    path: str = ""
    namespace: str = ""
    name: str = ""
    client: str = ""
    except_client: str = ""
    event: str | list[str] = []
    initial_events: bool | None = None

    def __post_init__(self) -> None:
        for verb in texts(self.verb):
            _one_of("verb", verb, _VERBS)
        for event in texts(self.event):
            _one_of("event", event, EVENT_TYPES)
        if self.path and self.resource:
            raise ValueError("path and resource exclude each other")


class When(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """The matches at which a fault applies, and the time, in seconds since the fault was added.

    Matches outside of that time do not count. `nth` selects matches by their number, from 1; `skip`
    leaves out the first ones; `times` is the maximum; `probability` is drawn with the server's seed
    for each match that is left.
    """

    nth: int | list[int] = []
    skip: int = 0
    times: int | None = None
    probability: float = 1.0
    from_seconds: float = 0.0
    until_seconds: float | None = None

    def __post_init__(self) -> None:
        if any(number < 1 for number in self.numbers):
            raise ValueError("nth counts from 1")
        _at_least("skip", self.skip, 0)
        if self.times is not None:
            _at_least("times", self.times, 1)
        if not 0.0 <= self.probability <= 1.0:
            raise ValueError(f"expected a probability from 0 to 1, got {self.probability:g}")
        _seconds("from_seconds", self.from_seconds)
        if self.until_seconds is not None:
            _seconds("until_seconds", self.until_seconds)
            if self.until_seconds <= self.from_seconds:
                raise ValueError("until_seconds must be after from_seconds")

    @property
    def numbers(self) -> list[int]:
        """Return the selected numbers of matches; empty for all."""
        return [self.nth] if isinstance(self.nth, int) else self.nth


class Delay(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """The request waits: for a time, a random time between two numbers, or until the fault's end.

    Without `seconds` it waits until the fault is removed or its time is over. With `after_write`
    the request is carried out at once, and only its answer waits.
    """

    seconds: float | list[float] | None = None
    after_write: bool = False

    def __post_init__(self) -> None:
        bounds = self.bounds
        for value in bounds:
            _seconds("seconds", value)
        if isinstance(self.seconds, list) and (len(bounds) != 2 or bounds[0] > bounds[1]):
            raise ValueError("expected seconds to be a number, or [least, most]")

    @property
    def bounds(self) -> list[float]:
        """Return one number, two, or none."""
        if self.seconds is None:
            return []
        return self.seconds if isinstance(self.seconds, list) else [float(self.seconds)]


class AnswerWith(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """A failure instead of the answer: 4xx or 5xx with a Status as upstream words it.

    `reason` and `message` replace upstream's. With `after_write` the request is carried out
    nevertheless, and its own answer is lost. `too_large_resource_version` (with
    code 504) is the answer for a version that the server has not reached.
    """

    code: int
    reason: str | None = None
    message: str | None = None
    retry_after_seconds: int = 0
    after_write: bool = False
    too_large_resource_version: bool = False

    def __post_init__(self) -> None:
        if not 400 <= self.code <= 599:
            raise ValueError(f"expected a code from 400 to 599, got {self.code}")
        _at_least("retry_after_seconds", self.retry_after_seconds, 0)
        if self.too_large_resource_version and self.code != 504:
            raise ValueError("too_large_resource_version goes with code 504")


class Reset(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """The connection breaks instead of an answer, after the request was carried out or before.

    A reset (RST), or with `close` a mere end of the connection (FIN).
    """

    after_write: bool = False
    close: bool = False


class Garble(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """The answer's body is damaged: broken off in the middle, no JSON any more, or empty."""

    how: str = "truncated"

    def __post_init__(self) -> None:
        _one_of("how", self.how, _GARBLES)


class Stale(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """A list, or the initial events of a watch-list, is of an older state, with its old version.

    The state is that before the last `changes` of the resource; without `changes`, that of the
    moment at which the fault was added.
    """

    changes: int | None = None

    def __post_init__(self) -> None:
        if self.changes is not None:
            _at_least("changes", self.changes, 1)


class Expire(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """410 Expired: the answer to a list, or the first and only event of a watch.

    With `as_answer` a watch is answered with 410 as well, instead of 200 and an ERROR event.
    """

    as_answer: bool = False


class RefuseWatchList(_Part, frozen=True, kw_only=True):
    """`sendInitialEvents` is refused with 422, as by a server without the feature."""


class Observe(_Part, frozen=True, kw_only=True):
    """Nothing goes wrong; the request, or with `match.event` the event, is only logged."""


class Stall(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """The watch is silent from this event on, for some seconds or until the fault's end."""

    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            _seconds("seconds", self.seconds)


class Cut(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """The watch ends instead of this event, or with `after_event` right after it.

    How: `eof`, `reset`, `truncate` (half of the event, then a reset), `expired` (an ERROR event
    410), `error` (an ERROR event with `code`).
    """

    how: str = "eof"
    code: int = 500
    after_event: bool = False

    def __post_init__(self) -> None:
        _one_of("how", self.how, _ENDS)
        if not 400 <= self.code <= 599:
            raise ValueError(f"expected a code from 400 to 599, got {self.code}")
        if self.how == "truncate" and self.after_event:
            raise ValueError("truncate and after_event exclude each other")


class Duplicate(_Part, frozen=True, kw_only=True):
    """The event is sent twice."""


class Lose(_Part, frozen=True, kw_only=True):
    """The event is not sent, without any notice to the client."""


class Outdated(_Part, frozen=True, kw_only=True):
    """After the event the state before it is sent once more, as MODIFIED with its old version."""


class Retype(_Part, frozen=True, kw_only=True):
    """The event's object is of a kind that does not belong into this watch."""


class Strip(_Part, frozen=True, kw_only=True):
    """The event's object has lost its annotations; so a watch-list does not know its end."""


class DropWatches(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """All open watches that match end at once. How: as for `cut`, but for `truncate`."""

    how: str = "eof"
    code: int = 500

    def __post_init__(self) -> None:
        _one_of("how", self.how, _ENDS)
        if self.how == "truncate":
            raise ValueError("there is no event to truncate: use cut")


class Outage(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """All connections are reset, new ones refused: for a time, or until the fault is removed."""

    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            _seconds("seconds", self.seconds)


class Restart(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """An outage after which the server has lost history or versions.

    With `compact` the server has lost its past changes, but not the objects. With `lost_versions`
    it has an older state and counts versions from there, as after a careless restore of a backup.
    """

    seconds: float = 0.0
    compact: bool = False
    lost_versions: int = 0

    def __post_init__(self) -> None:
        _seconds("seconds", self.seconds)
        _at_least("lost_versions", self.lost_versions, 0)


class Compact(_Part, frozen=True, kw_only=True):
    """The server forgets all past changes, as etcd does every five minutes."""


REQUEST_EFFECTS: Final = (
    "delay", "answer", "reset", "garble", "stale", "expire", "refuse_watch_list", "observe",
)  # fmt: skip
WATCH_EFFECTS: Final = ("stall", "cut", "duplicate", "lose", "outdated", "retype", "strip")
SERVER_EFFECTS: Final = ("drop_watches", "outage", "restart", "compact")
#: The verbs of effects that are not possible for all verbs.
_VERBS_OF: Final = {
    "garble": (tuple(verb for verb in _VERBS if verb != "watch"), "answers that end"),
    "stale": (("list", "watch"), "lists and watch-lists"),
    "expire": (("list", "watch"), "lists and watches"),
    "refuse_watch_list": (("watch",), "watch-lists"),
    "drop_watches": (("watch",), "watches"),
}
_EFFECTS: Final = (*REQUEST_EFFECTS, *WATCH_EFFECTS, *SERVER_EFFECTS)


class Fault(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that goes wrong. `name` is its name in the log; the default is a number.

    Raises ValueError for fields that contradict each other.
    """

    name: str = ""
    match: Match = Match()
    when: When = When()
    delay: Delay | None = None
    answer: AnswerWith | None = None
    reset: Reset | None = None
    garble: Garble | None = None
    stale: Stale | None = None
    expire: Expire | None = None
    refuse_watch_list: RefuseWatchList | None = None
    observe: Observe | None = None
    stall: Stall | None = None
    cut: Cut | None = None
    duplicate: Duplicate | None = None
    lose: Lose | None = None
    outdated: Outdated | None = None
    retype: Retype | None = None
    strip: Strip | None = None
    drop_watches: DropWatches | None = None
    outage: Outage | None = None
    restart: Restart | None = None
    compact: Compact | None = None

    def __post_init__(self) -> None:
        if self.name and not _NAME.fullmatch(self.name):
            raise ValueError(f"expected a name in lower case without spaces, got {self.name!r}")
        named = [effect for effect in _EFFECTS if getattr(self, effect) is not None]
        if len(named) != 1:
            raise ValueError(
                f"expected exactly one of {', '.join(_EFFECTS)}; got {', '.join(named) or 'none'}"
            )
        self._check_match(named[0])

    def _check_match(self, effect: str) -> None:
        """A match that can never come true is a mistake. Raises ValueError."""
        if effect in SERVER_EFFECTS:
            if self.when != When(from_seconds=self.when.from_seconds):
                raise ValueError(f"{effect} happens once: only from_seconds makes sense in when")
            if effect != "drop_watches" and self.match != Match():
                raise ValueError(f"{effect} is of the whole server: match makes no sense")
        of_events = effect in WATCH_EFFECTS or effect == "observe"
        if self.match.event and not of_events:
            raise ValueError(f"{effect} is of requests: match.event makes no sense")
        self._check_verbs(effect)
        if effect == "refuse_watch_list" and self.match.initial_events is False:
            raise ValueError(f"{effect} is of watch-lists: match.initial_events can only be true")

    def _check_verbs(self, effect: str) -> None:
        """A verb whose requests the effect means nothing to is a mistake. Raises ValueError."""
        possible, noun = _VERBS_OF.get(effect, (_VERBS, ""))
        if effect in WATCH_EFFECTS or self.match.event:
            possible, noun = ("watch",), "watches"
        if set(texts(self.match.verb)) - set(possible):
            raise ValueError(f"{effect} is of {noun}: match.verb can only be {', '.join(possible)}")

    @property
    def kind(self) -> str:
        """Return the name of the effect."""
        return next(effect for effect in _EFFECTS if getattr(self, effect) is not None)

    @property
    def is_of_events(self) -> bool:
        """Return True if the fault applies to the events of watches, not to requests."""
        return self.kind in WATCH_EFFECTS or bool(self.observe and self.match.event)

    @property
    def is_of_server(self) -> bool:
        """Return True if the fault applies to the whole server, once."""
        return self.kind in SERVER_EFFECTS
