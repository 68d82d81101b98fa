"""A case as a bug report: the steps with `kubectl`, the expected outcome, and the one seen."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import msgspec

from ..api import ref_of
from ..format.objects import Item, objects_of
from ..format.resources import objects, part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..api import Json

_KINDS: Final = ("pod", "node")


def bug_report(raw: Json, *, title: str, seen: str) -> str:
    """Return the text of a report, in Markdown. The last expectation of the case is not met."""
    steps = objects(raw["steps"])
    *course, last = steps if "expect" in steps[-1] else [*steps, {}]
    lines = [f"# {title}", "", "Steps:", ""]
    gates = part(raw, "gates")
    if gates:
        text = ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
        lines.append(f"1. Start kube-scheduler with `--feature-gates={text}`.")
    if raw.get("config"):
        lines.append(f"1. Configure it with `{_json(raw['config'])}`.")
    for entry in objects(raw.get("cluster")):
        lines += [f"1. {line}" for line in _created([entry])]
    for step in course:
        lines += [f"1. {line}" for line in _words(step)]
    lines += ["", f"Expected: {_expected(part(last, 'expect'))}", "", f"Seen: {seen}", ""]
    return "\n".join(lines)


def _words(step: Json) -> Iterator[str]:
    """Yield the lines of a step."""
    ((name, content),) = step.items()
    if name == "wait_until_settled":
        return
    if name == "create":
        yield from _created(objects(content))
        return
    if name == "advance":
        yield f"Wait for {content}."
        return
    about = content if isinstance(content, dict) else {}
    subject = _subject(about)
    if name == "delete":
        grace = about.get("grace_period_seconds")
        more = "" if grace is None else f" --grace-period={grace} --wait=false"
        yield f"`kubectl delete {subject}{more}`"
    elif name in ("patch", "update_status"):
        change = about["patch"] if name == "patch" else {"status": about["status"]}
        place = "status" if name == "update_status" else about.get("subresource")
        kind = about.get("type", "merge")
        more = f" --subresource={place}" if place else ""
        yield f"`kubectl patch {subject}{more} --type={kind} -p {shlex.quote(_json(change))}`"
    elif name == "bind":
        yield f"Bind {subject} to node `{about.get('node')}`, as another scheduler does."
    elif name == "evict":
        yield f"Evict {subject} (`kubectl drain` does)."
    elif name == "restart":
        yield "Restart the scheduler."
    else:
        yield f"{name.replace('_', ' ').capitalize()}: `{_json(content)}`"


def _created(entries: Iterable[Json]) -> Iterator[str]:
    for entry in entries:
        for made in objects_of(msgspec.convert(entry, Item)):
            yield f"`kubectl apply -f -` with `{_json(made)}`"


def _subject(about: Json) -> str:
    """Return the object that a step is about, as kubectl takes it."""
    for kind in _KINDS:
        if kind in about and not (kind == "node" and "pod" in about):
            namespace, _, name = str(about[kind]).rpartition("/")
            return f"{kind} {name}" + (f" -n {namespace}" if namespace else "")
    named = part(about, "object")
    if not named:
        return ""
    ref = ref_of({**named, "metadata": named})
    where = f" -n {named['namespace']}" if "namespace" in named else ""
    return f"{ref.kind.lower()} {ref.name}{where}"


def _expected(expect: Json) -> str:
    names = expect.get("pods")
    pod = f"pod {expect.get('pod')}"
    if isinstance(names, list):
        pod = ", ".join(f"pod {name}" for name in names)
    nodes = expect.get("bound_to_one_of") or [expect.get("bound_to")]
    if isinstance(nodes, list) and nodes != [None]:
        return f"{pod} is bound to {' or '.join(map(str, nodes))}."
    if "bound_count" in expect:
        count = expect["bound_count"]
        if isinstance(names, list) and count == len(names):
            return f"{pod} is bound." if count == 1 else f"{pod} are bound."
        return f"of {pod}, this number is bound: {_json(count)}."
    if expect.get("not_bound"):
        return f"{pod} is not bound."
    return f"`{_json(expect)}`" if expect else "the scheduler runs, and comes to rest."


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
