"""Puts the port together as flags say: socket, certificate, who is asked about whom.

Everything that can be wrong with it is wrong here, before the scheduler starts, as one
`ServingError`. Source: apiserver `options/{authentication,authorization}.go` (`ApplyTo`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from scheduler.client import ClientError, KubeconfigError
from scheduler.client.kubeconfig import connection_from_kubeconfig, connection_in_cluster
from scheduler.serving.authentication import Authenticator, TokenReviews
from scheduler.serving.authorization import AccessReviews, Authorizer, OpenPaths
from scheduler.serving.errors import ServingError
from scheduler.serving.listener import create_listener
from scheduler.serving.reviews import AUTHENTICATION_CONFIG_MAP, ReviewClient
from scheduler.serving.server import Gate, SchedulerServer
from scheduler.serving.tls import ServerTls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduler.client import Connection
    from scheduler.clock import Clock
    from scheduler.serving.endpoints import Endpoints
    from scheduler.serving.options import ServingOptions

_log: Final = logging.getLogger("kubesched")

#: How often files and the cluster's settings are looked at again.
_RENEWAL_SECONDS: Final = 60.0
_CLIENT_CA: Final = "client-ca-file"


@contextlib.asynccontextmanager
async def serve_securely(
    options: ServingOptions, endpoints: Endpoints, *, clock: Clock
) -> AsyncIterator[SchedulerServer]:
    """Serve over HTTPS, with permission only, until the block is left. Raises ServingError."""
    open_paths = OpenPaths(options.authorization.always_allow_paths)
    async with contextlib.AsyncExitStack() as stack:
        listener = stack.enter_context(
            contextlib.closing(create_listener(options.bind_address, options.secure_port))
        )
        tls = ServerTls(options, now=clock.now())
        authentication = await _client(
            stack, options.authentication.kubeconfig, "authentication", clock
        )
        lookup = _ClusterSettings(options, tls, authentication)
        await lookup.first()
        authorization = await _client(
            stack, options.authorization.kubeconfig, "authorization", clock
        )
        if authorization is None:
            _log.info(
                "No authorization-kubeconfig provided, so SubjectAccessReview of authorization "
                "tokens won't work."
            )
        gate = Gate(
            _authenticator(options, authentication, clock),
            _authorizer(options, open_paths, authorization, clock),
        )
        server = SchedulerServer(endpoints, listener, tls=tls.context, gate=gate)
        await stack.enter_async_context(server)
        renewal = asyncio.ensure_future(_renew(tls, lookup, clock))
        stack.push_async_callback(_cancelled, renewal)
        yield server


class _ClusterSettings:
    """The authorities of client certificates, as the cluster publishes them for servers."""

    def __init__(
        self, options: ServingOptions, tls: ServerTls, client: ReviewClient | None
    ) -> None:
        own = options.authentication
        self._tls: Final = tls
        self._client: Final = client
        self._wanted: Final = not (own.client_ca_file or own.skip_lookup)
        self._tolerates_failure: Final = own.tolerate_lookup_failure

    async def first(self) -> None:
        """Look them up before serving. Raises ServingError unless failing is tolerated."""
        if not self._wanted:
            return
        namespace, name = AUTHENTICATION_CONFIG_MAP
        if self._client is None:
            _log.info(
                "No authentication-kubeconfig provided in order to lookup client-ca-file in "
                "configmap/%s in %s, so client certificate authentication won't work.",
                *(name, namespace),
            )
            return
        try:
            await self._look_up(self._client)
        except (ClientError, ServingError) as error:
            if not self._tolerates_failure:
                raise ServingError(
                    f"unable to load configmap based client CA file: {error}"
                ) from error
            _log.warning("Error looking up in-cluster authentication configuration: %s", error)
            _log.warning(
                "Continuing without authentication configuration. This may treat all requests "
                "as anonymous."
            )
            _log.warning(
                "To require authentication configuration lookup to succeed, set "
                "--authentication-tolerate-lookup-failure=false"
            )

    async def again(self) -> None:
        """Look them up once more; what was known stays if that fails."""
        if self._wanted and self._client is not None:
            try:
                await self._look_up(self._client)
            except (ClientError, ServingError) as error:
                _log.info("looking up authentication configuration again: %s", error)

    async def _look_up(self, client: ReviewClient) -> None:
        bundle = (await client.authentication_settings()).get(_CLIENT_CA)
        if bundle:
            namespace, name = AUTHENTICATION_CONFIG_MAP
            source = f"client-ca::{namespace}::{name}::{_CLIENT_CA}"
            self._tls.trust_clients_of(bundle.encode(), source=source)


def _authenticator(
    options: ServingOptions, client: ReviewClient | None, clock: Clock
) -> Authenticator:
    if client is None:
        return Authenticator()
    seconds = options.authentication.cache_seconds
    return Authenticator(TokenReviews(client, cache_seconds=seconds, clock=clock))


def _authorizer(
    options: ServingOptions, open_paths: OpenPaths, client: ReviewClient | None, clock: Clock
) -> Authorizer:
    if client is None:
        return Authorizer(open_paths)
    reviews = AccessReviews(
        client,
        authorized_seconds=options.authorization.authorized_seconds,
        unauthorized_seconds=options.authorization.unauthorized_seconds,
        clock=clock,
    )
    return Authorizer(open_paths, reviews)


async def _client(
    stack: contextlib.AsyncExitStack, kubeconfig: str, what: str, clock: Clock
) -> ReviewClient | None:
    """Whom to ask: the file's server, or in a cluster its own; None if there is nobody."""
    try:
        connection = _connection(kubeconfig, clock)
    except KubeconfigError as error:
        if kubeconfig:
            raise ServingError(f"failed to get delegated {what} kubeconfig: {error}") from error
        _log.warning("failed to read in-cluster kubeconfig for delegated %s: %s", what, error)
        return None
    if connection is None:
        return None
    return await stack.enter_async_context(
        ReviewClient(connection, clock=clock, rng=random.Random())
    )


def _connection(kubeconfig: str, clock: Clock) -> Connection | None:
    if kubeconfig:
        return connection_from_kubeconfig([Path(kubeconfig)], clock=clock, environ=os.environ)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return connection_in_cluster(clock=clock)
    return None


async def _renew(tls: ServerTls, lookup: _ClusterSettings, clock: Clock) -> NoReturn:
    while True:
        await clock.sleep(_RENEWAL_SECONDS)
        tls.reload(now=clock.now())
        await lookup.again()


async def _cancelled(task: asyncio.Task[NoReturn]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
