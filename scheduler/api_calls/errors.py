"""Why a call was not made. Neither says that anything went wrong.

Source: `k8s.io/kube-scheduler/framework/api_dispatcher.go`.
"""

from __future__ import annotations


class CallNotMade(Exception):
    """Another call made this one needless, or nothing was left to do."""


class CallSkipped(CallNotMade):
    """The call would change nothing, or a more relevant one for the object is on its way."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: call skipped")


class CallOverwritten(CallNotMade):
    """A newer call took this one's place, with what it was to say if they are of one type."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: call overwritten")
