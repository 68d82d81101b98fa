"""The gate before the handler: authentication, request limits, authorization.

Source: apiserver pkg/endpoints/filters/{authentication,authorization}.go and
pkg/server/filters/maxinflight.go of v0.36.3, in the order of pkg/server/config.go.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs

from fakeapi.access.users import ANONYMOUS, MASTERS, User, act_as
from fakeapi.http import answers
from fakeapi.types.errors import BadRequest, TooBusy, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from fakeapi.access.access import Access
    from fakeapi.access.attributes import Attributes
    from fakeapi.http.answers import Answer

_IMPERSONATE: Final = "impersonate-"


@dataclasses.dataclass(slots=True)
class Gate:
    """Lets requests in, one by one. A limit of 0 means no limit."""

    access: Access
    authenticates: bool
    max_requests_inflight: int = 0
    max_mutating_requests_inflight: int = 0
    _reading: int = 0
    _mutating: int = 0

    def enter(self, http: web.BaseRequest, attributes: Attributes) -> Callable[[], None]:
        """Let a request in. Return the function to call when the request is done.

        Raises Unauthorized, TooBusy, Forbidden and BadRequest.
        """
        user = self._user_of(http)
        leave = self._occupied(attributes, user)
        try:
            self._authorize(attributes, user)
        except BaseException:
            leave()
            raise
        act_as(user)
        return leave

    def _user_of(self, http: web.BaseRequest) -> User:
        if not self.authenticates:
            return ANONYMOUS
        ssl_object = http.get_extra_info("ssl_object")
        certificate = None if ssl_object is None else ssl_object.getpeercert(binary_form=True)
        authorization = http.headers.get(hdrs.AUTHORIZATION, "")
        user = self.access.authenticator.user_of(authorization, certificate)
        if user is None:
            raise Unauthorized
        for name in http.headers:
            if name.lower().startswith(_IMPERSONATE):
                raise BadRequest(f"impersonation is not served: remove the header {name.title()}")
        return user

    def _authorize(self, attributes: Attributes, user: User) -> None:
        decision = self.access.authorizer.decide(user, attributes)
        if not decision.allowed:
            raise attributes.refusal(user, decision.reason)

    def _occupied(self, attributes: Attributes, user: User) -> Callable[[], None]:
        """Take one of the places there are; administrators get in even if there is none."""
        if attributes.is_long_running:
            return _nothing
        if attributes.is_mutating:
            if self._is_full(self._mutating, self.max_mutating_requests_inflight, user):
                raise TooBusy
            self._mutating += 1
            return self._leave_mutating
        if self._is_full(self._reading, self.max_requests_inflight, user):
            raise TooBusy
        self._reading += 1
        return self._leave_reading

    def _is_full(self, present: int, limit: int, user: User) -> bool:
        return bool(limit) and present >= limit and MASTERS not in user.groups

    def _leave_mutating(self) -> None:
        self._mutating -= 1

    def _leave_reading(self) -> None:
        self._reading -= 1


def _nothing() -> None:
    pass


def too_busy(error: TooBusy) -> Answer:
    """Return the answer to a request when there are too many; the answer is no Status."""
    headers = {"Retry-After": str(error.retry_after_seconds)}
    return answers.Answer(error.code, f"{error.message}\n".encode(), answers.PLAIN_TEXT, headers)
