"""The policy that the flags name, translated: a file, a ConfigMap, or an algorithm provider.

Source: v1.13 `app/options/deprecated.go` (`Validate`, `ApplyTo`), `scheduler.go`
(`initPolicyFromConfigMap`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api import field
from scheduler.client import ClientError, ConnectionFailed, RestClient
from scheduler.client.flow_control import Backoff
from scheduler.client.rest import Subject
from scheduler.config import ConfigError
from scheduler.flags.policy_document import load_policy, policy_of_config_map
from scheduler.flags.policy_translation import provider_policy, translate
from scheduler.plugins import SCHEME

if TYPE_CHECKING:
    from scheduler.client import Connection
    from scheduler.clock import Clock
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.flags.options import Options
    from scheduler.flags.policy_document import Policy
    from scheduler.flags.policy_translation import Translation

_log: Final = logging.getLogger(__name__)


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


def translated_policy(
    options: Options,
    config: KubeSchedulerConfiguration,
    connection: Connection,
    *,
    clock: Clock,
) -> Translation | None:
    """Return the policy of the flags in the place of the profiles; None without a policy.

    With `--config` the flags are ignored. An API server that cannot be reached is waited for.
    Raises `ConfigError`, and `ClientError` without credentials.
    """
    values = options.values
    file, config_map = values.string("policy-config-file"), values.string("policy-configmap")
    is_file_wanted = values.boolean("use-legacy-policy-config")
    provider = values.string("algorithm-provider")
    if is_file_wanted and not file:
        text = "required when --use-legacy-policy-config is true"
        raise ConfigError(str(field.required("policyConfigFile", text)))
    if options.config_file is not None:
        return None
    if is_file_wanted or (file and not config_map):
        policy, provider = load_policy(file), ""
    elif config_map:
        namespace = values.string("policy-configmap-namespace") or "kube-system"
        policy = asyncio.run(_from_config_map(connection, namespace, config_map, clock))
        provider = ""
    elif provider:
        policy = provider_policy(provider)
    else:
        return None
    scheme = SCHEME._replace(gates=options.gates, version=options.effective_version.scheduler)
    return translate(policy, config, scheme, provider=provider)


async def _from_config_map(
    connection: Connection, namespace: str, name: str, clock: Clock
) -> Policy:
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
    backoff = Backoff(clock=clock, rng=random.Random())
    is_reported = False
    async with RestClient(connection, clock=clock, user_agent="kubesched/policy") as client:
        while True:
            try:
                body = await client.request("GET", path, subject=Subject("configmaps", name))
                break
            except ConnectionFailed as error:
                if not is_reported:
                    _log.error("The policy cannot be read; trying again until it can: %s", error)
                    is_reported = True
                await backoff.pause()
            except ClientError as error:
                raise ConfigError(
                    f"couldn't get policy config map {namespace}/{name}: {error}"
                ) from error
    try:
        data = msgspec.json.decode(body, type=_ConfigMap).data
    except msgspec.DecodeError as error:
        raise ConfigError(f"couldn't get policy config map {namespace}/{name}: {error}") from error
    return policy_of_config_map(data)
