"""Sets up the port from its options: socket, certificate, clients for reviews, endpoints.

Every error in the options is raised here as one ServingError, before the scheduler starts.
Source: apiserver `options/{authentication,authorization}.go` (`ApplyTo`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from scheduler.client import CA_ROTATION, ClientError, KubeconfigError, connect_process
from scheduler.config import DEFAULT_FEATURE_GATES
from scheduler.serving.authentication import Authenticator
from scheduler.serving.authorization import Authorizer, OpenPaths
from scheduler.serving.endpoints import Endpoints
from scheduler.serving.http_server import AccessControl, SchedulerServer, create_listener
from scheduler.serving.options import REQUEST_HEADER_LISTS, RequestHeaderOptions, ServingError
from scheduler.serving.reviews import AUTHENTICATION_CONFIG_MAP, ReviewClient
from scheduler.serving.tls import ServerTls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from scheduler.clock import Clock
    from scheduler.config import FeatureGates, KubeSchedulerConfiguration
    from scheduler.serving.endpoints import ServedScheduler
    from scheduler.serving.options import AuthenticationOptions, ServingOptions

_log: Final = logging.getLogger(__name__)

#: The period after which files and the cluster's settings are read again.
_RENEWAL_SECONDS: Final = 60.0
_CLIENT_CA: Final = "client-ca-file"
_PROXY_CA: Final = "requestheader-client-ca-file"


@contextlib.asynccontextmanager
async def serve_securely(
    options: ServingOptions,
    config: KubeSchedulerConfiguration,
    scheduler: ServedScheduler,
    *,
    clock: Clock,
    is_shutting_down: Callable[[], bool],
    gates: FeatureGates,
    flags: Mapping[str, str],
) -> AsyncIterator[SchedulerServer]:
    """Serve over HTTPS with access control until the block is left. Raises ServingError."""
    endpoints = Endpoints(
        scheduler,
        config,
        is_shutting_down=is_shutting_down,
        clock=clock,
        gates=gates,
        flags=flags,
    )
    open_paths = OpenPaths(options.authorization.always_allow_paths)
    async with contextlib.AsyncExitStack() as stack:
        listener = stack.enter_context(
            contextlib.closing(
                create_listener(
                    options.bind_address,
                    options.secure_port,
                    permit_port_sharing=options.permit_port_sharing,
                )
            )
        )
        tls = ServerTls(options, now=clock.now())
        tls.warn_of_expiry(now=clock.now())
        scheduler.metrics.serving_certificate_expiration.read = lambda: [((), tls.expires_at)]
        tokens = await _review_client(
            stack, options.authentication.kubeconfig, "authentication", clock, gates
        )
        published = _PublishedAuthorities(options.authentication, tls, tokens)
        await published.load()
        access = await _review_client(
            stack, options.authorization.kubeconfig, "authorization", clock, gates
        )
        if access is None:
            _log.info(
                "No authorization-kubeconfig provided, so SubjectAccessReview of authorization "
                "tokens won't work."
            )
        control = AccessControl(
            Authenticator(
                tokens,
                tls.trust,
                cache_seconds=options.authentication.cache_seconds,
                clock=clock,
            ),
            Authorizer(open_paths, access, options=options.authorization, clock=clock),
        )
        server = SchedulerServer(endpoints, listener, tls=tls.context, access=control)
        await stack.enter_async_context(server)
        renewal = asyncio.ensure_future(_renew(tls, published, clock))
        stack.push_async_callback(_cancel, renewal)
        yield server


def serve_for_tests(
    config: KubeSchedulerConfiguration, scheduler: ServedScheduler, *, clock: Clock
) -> SchedulerServer:
    """Return a server for plain HTTP on a free port of the loopback interface, open to all."""
    endpoints = Endpoints(
        scheduler,
        config,
        is_shutting_down=lambda: False,
        clock=clock,
        gates=DEFAULT_FEATURE_GATES,
        flags={},
    )
    return SchedulerServer(endpoints, create_listener("127.0.0.1", None))


@dataclass(frozen=True, slots=True)
class _PublishedAuthorities:
    """Trusts the authorities that the cluster publishes for servers: of clients, and of proxies."""

    options: AuthenticationOptions
    tls: ServerTls
    client: ReviewClient | None

    @property
    def _is_wanted(self) -> bool:
        files = self.options.client_ca_file, self.options.request_header.client_ca_file
        return not (all(files) or self.options.skip_lookup)

    async def load(self) -> None:
        """Look them up before serving. Raises ServingError unless failing is tolerated."""
        if not self._is_wanted:
            return
        namespace, name = AUTHENTICATION_CONFIG_MAP
        if self.client is None:
            for key, file, kind in (
                (_CLIENT_CA, self.options.client_ca_file, "client"),
                (_PROXY_CA, self.options.request_header.client_ca_file, "request-header client"),
            ):
                if not file:
                    _log.info(
                        "No authentication-kubeconfig provided in order to lookup %s in "
                        "configmap/%s in %s, so %s certificate authentication won't work.",
                        *(key, name, namespace, kind),
                    )
            return
        try:
            await self._look_up(self.client)
        except (ClientError, ServingError) as error:
            if not self.options.tolerate_lookup_failure:
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

    async def reload(self) -> None:
        """Look them up again; keep the known ones if that fails."""
        if self._is_wanted and self.client is not None:
            try:
                await self._look_up(self.client)
            except (ClientError, ServingError) as error:
                _log.info("looking up authentication configuration again: %s", error)

    async def _look_up(self, client: ReviewClient) -> None:
        settings, trust = await client.authentication_settings(), self.tls.trust
        where = "::".join(AUTHENTICATION_CONFIG_MAP)
        if (bundle := settings.get(_CLIENT_CA)) and not self.options.client_ca_file:
            source = f"client-ca::{where}::{_CLIENT_CA}"
            self.tls.accept(bundle.encode(), trust.clients, source=source)
        if (bundle := settings.get(_PROXY_CA)) and not self.options.request_header.client_ca_file:
            trust.headers = _published_headers(settings)
            source = f"request-header::{where}::{_PROXY_CA}"
            self.tls.accept(bundle.encode(), trust.proxies, source=source)


def _published_headers(settings: Mapping[str, str]) -> RequestHeaderOptions:
    """Return the headers of proxies that the cluster publishes. Raises ServingError."""
    values: dict[str, tuple[str, ...]] = {}
    for name in REQUEST_HEADER_LISTS:
        key = f"requestheader-{name.replace('_', '-')}"
        try:
            values[name] = msgspec.json.decode(settings.get(key, "[]"), type=tuple[str, ...])
        except msgspec.DecodeError as error:
            raise ServingError(f"{key}: {error}") from error
    return RequestHeaderOptions(client_ca_file="", **values)


async def _review_client(
    stack: contextlib.AsyncExitStack,
    kubeconfig: str,
    purpose: str,
    clock: Clock,
    gates: FeatureGates,
) -> ReviewClient | None:
    """Return a client of the file's server, or of the own cluster's; None outside a cluster."""
    if not kubeconfig and not os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    try:
        connection = connect_process(
            kubeconfig=kubeconfig, clock=clock, follows_authority=CA_ROTATION in gates
        )
    except KubeconfigError as error:
        if kubeconfig:
            raise ServingError(f"failed to get delegated {purpose} kubeconfig: {error}") from error
        _log.warning("failed to read in-cluster kubeconfig for delegated %s: %s", purpose, error)
        return None
    return await stack.enter_async_context(
        ReviewClient(connection, clock=clock, rng=random.Random())
    )


async def _renew(tls: ServerTls, published: _PublishedAuthorities, clock: Clock) -> NoReturn:
    while True:
        await clock.sleep(_RENEWAL_SECONDS)
        try:
            tls.reload(now=clock.now())
            tls.warn_of_expiry(now=clock.now())
            await published.reload()
        except Exception:  # noqa: BLE001 - the loop goes on
            # No other task sees the error; without renewal the certificate would expire unnoticed.
            _log.exception("Renewing certificates failed")


async def _cancel(task: asyncio.Task[NoReturn]) -> None:
    task.cancel()
    await asyncio.wait((task,))
