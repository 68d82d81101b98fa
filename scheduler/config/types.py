"""`kubescheduler.config.k8s.io/v1` `KubeSchedulerConfiguration`: what can be configured.

The field names on the wire are upstream's to the letter. A field's default stands here and nowhere
else; the defaults that depend on other fields are in `scheduler.config.defaults`. What is read from
a file is complete (see `scheduler.config.load`): no reader of these types need ask whether a
field was written. Lists are tuples, values are values for good.
Source: kube-scheduler `config/v1/types.go`, component-base `config/v1alpha1/types.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from scheduler.api.core import Struct
from scheduler.config.duration import SECOND, Duration

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP: Final = "kubescheduler.config.k8s.io"
API_VERSION: Final = f"{GROUP}/v1"
KIND: Final = "KubeSchedulerConfiguration"

#: What a lone profile is called, and what a pod asks for that names no scheduler.
DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"

#: A JSON object.
Json = dict[str, object]

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class ConfigStruct(Struct, frozen=True):
    """The base of everything that upstream's configuration API defines itself."""


class LeaderElectionConfiguration(ConfigStruct, frozen=True):
    """The lease that one of several schedulers holds while it works."""

    leader_elect: bool = True
    lease_duration: Duration = Duration(15 * SECOND)
    renew_deadline: Duration = Duration(10 * SECOND)
    retry_period: Duration = Duration(2 * SECOND)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(ConfigStruct, frozen=True):
    """How to reach the API server, and how many requests a second to send it."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100


class Plugin(ConfigStruct, frozen=True):
    """A plugin by its name. The weight counts for scores only; 0 is "not set"."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(ConfigStruct, frozen=True):
    """What is switched on and off at one extension point; `*` among `disabled` is all defaults."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


class Plugins(ConfigStruct, frozen=True):
    """The plugins of a profile by extension point; `multi_point` is all points a plugin has."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def points(self) -> Iterator[tuple[str, PluginSet]]:
        """Every extension point by its name in a file (`preEnqueue`), `multiPoint` among them."""
        for field in msgspec.structs.fields(self):
            yield field.encode_name, getattr(self, field.name)

    def names(self) -> list[str]:
        """The plugins enabled at any point, each once, in alphabetical order."""
        return sorted({plugin.name for _, point in self.points() for plugin in point.enabled})


class PluginConfig(ConfigStruct, frozen=True):
    """A plugin's arguments.

    For an in-tree plugin a struct from `scheduler.config.plugin_args`, for any other the JSON value
    as it was written, `None` if there was none: the plugin knows what it means.
    """

    name: str = ""
    args: object = None


class KubeSchedulerProfile(ConfigStruct, frozen=True):
    """A set of plugins and their arguments under the scheduler name that pods ask for."""

    scheduler_name: str = ""
    #: Overrides the field of the same name of the whole configuration, if set.
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class ExtenderManagedResource(ConfigStruct, frozen=True):
    """A resource an extender answers for, and whether the scheduler's own rules look away."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(ConfigStruct, frozen=True):
    """How to trust an extender and be trusted by it; data counts before files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(ConfigStruct, frozen=True):
    """A web service that takes part in scheduling; a verb left empty is one it does not offer."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    tls_config: ExtenderTLSConfig | None = None
    #: Zero is "not set"; the extender's client then waits 5 seconds.
    http_timeout: Duration = Duration()
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(ConfigStruct, frozen=True):
    """The whole configuration of a scheduler process."""

    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    #: Follows `enable_profiling` if a file does not set it.
    enable_contention_profiling: bool = True
    #: 0 is adaptive: the larger the cluster, the smaller the share.
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
