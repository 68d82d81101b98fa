"""Types of `kubescheduler.config.k8s.io/v1` `KubeSchedulerConfiguration`.

The field names on the wire are upstream's to the letter. A field's default stands here; the
defaults that depend on other fields are in `scheduler.config.load`, which reads complete
configurations only: readers of these types need not check if a field was set. Lists are tuples.
Source: kube-scheduler `config/v1/types.go`, component-base `config/v1alpha1/types.go`,
`pkg/features/kube_features.go` at v1.36.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, NamedTuple

import msgspec

from scheduler.api.core import Struct
from scheduler.api.duration import SECOND, Duration
from scheduler.config.known_features import features_of
from scheduler.config.versions import DEFAULT_SCHEDULER_VERSION, SchedulerVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from scheduler.api.field import FieldError

    Validator = Callable[[str, "FeatureGates"], list[FieldError]]

GROUP: Final = "kubescheduler.config.k8s.io"
API_VERSION: Final = f"{GROUP}/v1"
KIND: Final = "KubeSchedulerConfiguration"

#: The name of a profile that stands alone without one, and of pods that name no scheduler.
DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"

#: A JSON object.
Json = dict[str, object]

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

#: The names of the feature gates that are on.
FeatureGates = frozenset[str]

#: Pods leave backoff early while no pod is active.
POP_FROM_BACKOFF_Q: Final = "SchedulerPopFromBackoffQ"
#: Plugins decide which events retry a pod. The gate is gone, and always on, since 1.37.
QUEUEING_HINTS: Final = "SchedulerQueueingHints"
#: Plugins allocate devices. Locked to on since 1.35.
DYNAMIC_RESOURCE_ALLOCATION: Final = "DynamicResourceAllocation"
#: Pods with a scheduling group are scheduled together with the other members of their group.
GENERIC_WORKLOAD: Final = "GenericWorkload"
#: The gate of preemption for a pod on a node that wants more than the node has left.
RESIZE_PREEMPTION: Final = "InPlacePodVerticalScalingSchedulerPreemption"
#: Groups with the policy `gang` are scheduled with at least their minCount, or not at all.
GANG_SCHEDULING: Final = "GangScheduling"
#: Groups with a topology constraint are scheduled into one domain.
TOPOLOGY_AWARE_WORKLOAD_SCHEDULING: Final = "TopologyAwareWorkloadScheduling"
#: Preemption makes room for a whole group at once.
WORKLOAD_AWARE_PREEMPTION: Final = "WorkloadAwarePreemption"


@functools.cache
def default_feature_gates(version: SchedulerVersion) -> FeatureGates:
    """Return the gates that are on by default in a version."""
    features = features_of(version, version, version - 1)
    return frozenset(name for name, spec in features.items() if spec.default)


def uses_queueing_hints(gates: FeatureGates, version: SchedulerVersion) -> bool:
    """Return False for a scheduler that emulates a version in which the gate is off."""
    return version >= SchedulerVersion.V1_37 or QUEUEING_HINTS in gates


#: The gates that are on by default.
DEFAULT_FEATURE_GATES: Final = default_feature_gates(DEFAULT_SCHEDULER_VERSION)

#: Value of `ConfigStruct.always_written`: every field.
ALL_FIELDS: Final = frozenset("*")


class ConfigError(ValueError):
    """The configuration cannot be read; the text is one line that names the field.

    The cause (an `OSError`, a YAML error, a `FieldError`) is chained. Values that are well formed
    but make no sense are not raised but listed: see `scheduler.config.validation`.
    """


class ConfigStruct(Struct, frozen=True):
    """Base of all types that upstream's configuration API defines itself."""

    always_written: ClassVar[frozenset[str]] = frozenset()
    """Fields that `/configz` shows even if they are empty: their Go tags lack `omitempty`."""

    since: ClassVar[Mapping[str, SchedulerVersion]] = {}
    """The versions that added fields, by the names of the fields. All have the others."""


@functools.cache  # evaluating the annotations costs as much as creating a framework
def fields_of(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a struct, with their names on the wire and their defaults."""
    return msgspec.structs.fields(kind)


def has_field(kind: type[msgspec.Struct], name: str, version: SchedulerVersion) -> bool:
    """Return True if a version has this field."""
    return not issubclass(kind, ConfigStruct) or version >= kind.since.get(name, 0)


class PluginArgs(ConfigStruct, frozen=True):
    """Base of the arguments of an in-tree plugin. The class is named after its `kind`."""

    is_validated_with_config: ClassVar[bool] = True
    """False if only the registry validates these arguments, when it makes the plugin."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        """Return a copy with the defaults that depend on other fields or on feature gates."""
        return self

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """Return all errors, in upstream's order; `path` is the path of the arguments, or empty."""
        return []

    def validator(self, version: SchedulerVersion) -> Validator:
        """Return the function that validates as the version does."""
        return self.validate


class Scheme(NamedTuple):
    """The kinds a configuration may hold besides its own: the arguments of the in-tree plugins."""

    plugin_args: Mapping[str, type[PluginArgs]]
    """The type of the arguments by plugin name. A plugin without arguments is not in it."""

    gates: FeatureGates = DEFAULT_FEATURE_GATES
    """The feature gates that are on: some change defaults or forbid fields."""

    version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION
    """The version whose defaults and fields the configuration has."""

    @property
    def kinds(self) -> frozenset[str]:
        """Every `kind` of `API_VERSION`."""
        return frozenset((KIND, *(args.__name__ for args in self.plugin_args.values())))


class LeaderElectionConfiguration(ConfigStruct, frozen=True):
    """The lease that one of several schedulers holds while it works."""

    always_written: ClassVar[frozenset[str]] = ALL_FIELDS

    leader_elect: bool = True
    """Schedule only while holding the lease. Default: true."""

    lease_duration: Duration = Duration(15 * SECOND)
    """Time after which others take a lease that is not renewed. Default: 15s."""

    renew_deadline: Duration = Duration(10 * SECOND)
    """Time after which a leader that fails to renew the lease gives up. Default: 10s."""

    retry_period: Duration = Duration(2 * SECOND)
    """Pause between two attempts to acquire or renew the lease. Default: 2s."""

    resource_lock: str = "leases"
    """Kind of the lock object; only `leases` is valid."""

    resource_name: str = "kube-scheduler"
    """Name of the Lease. Default: `kube-scheduler`."""

    resource_namespace: str = "kube-system"
    """Namespace of the Lease. Default: `kube-system`."""


class ClientConnectionConfiguration(ConfigStruct, frozen=True):
    """The connection to the API server."""

    always_written: ClassVar[frozenset[str]] = ALL_FIELDS

    kubeconfig: str = ""
    """Path of a kubeconfig file. Default: the in-cluster configuration."""

    accept_content_types: str = ""
    """The `Accept` header upstream sends. Not used here."""

    content_type: str = "application/vnd.kubernetes.protobuf"
    """The `Content-Type` header upstream sends. Not used here."""

    qps: float = 50.0
    """Requests per second in the long run; negative turns the limit off. Default: 50."""

    burst: Int32 = 100
    """Requests that may be sent at once above `qps`. Default: 100."""


class Plugin(ConfigStruct, frozen=True):
    """A plugin that is enabled or disabled at an extension point."""

    always_written: ClassVar[frozenset[str]] = ALL_FIELDS

    name: str = ""
    """Name of the plugin; `*` among disabled ones means every default plugin."""

    weight: Int32 = 0
    """Factor of the plugin's scores. 0 means not set, which counts as 1."""


class PluginSet(ConfigStruct, frozen=True):
    """The plugins enabled and disabled at one extension point."""

    enabled: tuple[Plugin, ...] = ()
    """Called after the default plugins, in this order, or in the default's place."""

    disabled: tuple[Plugin, ...] = ()
    """Default plugins not to call."""


class Plugins(ConfigStruct, frozen=True):
    """The plugins of a profile by extension point.

    `multi_point` enables a plugin at every point that it defines.
    """

    always_written: ClassVar[frozenset[str]] = ALL_FIELDS
    since: ClassVar[Mapping[str, SchedulerVersion]] = {
        "placement_generate": SchedulerVersion.V1_36,
        "placement_score": SchedulerVersion.V1_36,
        "pod_group_post_filter": SchedulerVersion.V1_37,
    }

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
    #: Without effect: the pod groups of 1.37 are not built.
    pod_group_post_filter: PluginSet = PluginSet()

    def points(self) -> Iterator[tuple[str, PluginSet]]:
        """Yield each extension point's name in a file (`preEnqueue`) and plugins."""
        for field in fields_of(Plugins):
            yield field.encode_name, getattr(self, field.name)

    def names(self) -> list[str]:
        """Return the plugins enabled at any point, each once, in alphabetical order."""
        return sorted({plugin.name for _, point in self.points() for plugin in point.enabled})


class PluginConfig(ConfigStruct, frozen=True):
    """The arguments of a plugin."""

    always_written: ClassVar[frozenset[str]] = ALL_FIELDS

    name: str = ""
    """Name of the plugin."""

    args: object = None
    """A `PluginArgs` for an in-tree plugin, else the JSON value of the file, or None."""


class KubeSchedulerProfile(ConfigStruct, frozen=True):
    """A set of plugins and their arguments."""

    always_written: ClassVar[frozenset[str]] = frozenset({"scheduler_name"})

    scheduler_name: str = ""
    """Pods with this `spec.schedulerName` use the profile."""

    percentage_of_nodes_to_score: Int32 | None = None
    """Overrides the field of the same name of the whole configuration, if set."""

    plugins: Plugins = Plugins()
    """Changes to the default plugins; all plugins once defaults are filled in."""

    plugin_config: tuple[PluginConfig, ...] = ()
    """Arguments of plugins. Default: the default arguments of each plugin."""


class ExtenderManagedResource(ConfigStruct, frozen=True):
    """An extended resource that an extender manages."""

    always_written: ClassVar[frozenset[str]] = frozenset({"name"})

    name: str = ""
    """Name of the resource."""

    ignored_by_scheduler: bool = False
    """NodeResourcesFit does not check the resource. Default: false."""


class ExtenderTLSConfig(ConfigStruct, frozen=True):
    """TLS settings for an extender. Data takes precedence over files."""

    insecure: bool = False
    """Do not verify the server's certificate. Default: false."""

    server_name: str = ""
    """Name expected in the server's certificate. Default: the host of the URL."""

    cert_file: str = ""
    """Path of the client certificate (PEM)."""

    key_file: str = ""
    """Path of the client key (PEM)."""

    ca_file: str = ""
    """Path of the trusted root certificates (PEM)."""

    cert_data: bytes = b""
    """The client certificate (PEM)."""

    key_data: bytes = b""
    """The client key (PEM)."""

    ca_data: bytes = b""
    """The trusted root certificates (PEM)."""


class Extender(ConfigStruct, frozen=True):
    """A web service that takes part in scheduling. An empty verb means: not offered."""

    always_written: ClassVar[frozenset[str]] = frozenset({"url_prefix", "http_timeout"})

    url_prefix: str = ""
    """URL in front of the verbs."""

    filter_verb: str = ""
    """Path of the filter call."""

    preempt_verb: str = ""
    """Path of the preempt call."""

    prioritize_verb: str = ""
    """Path of the prioritize call."""

    weight: Int64 = 0
    """Factor of the scores; must be positive if `prioritize_verb` is set."""

    bind_verb: str = ""
    """Path of the bind call; one extender at most may have it."""

    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    """Use HTTPS. Default: false."""

    tls_config: ExtenderTLSConfig | None = None
    """TLS settings for HTTPS."""

    http_timeout: Duration = Duration()
    """Timeout of a call. Zero means not set: 5 seconds."""

    node_cache_capable: bool = False
    """Send names of nodes instead of whole nodes. Default: false."""

    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    """Call the extender only for pods that request one of these. Default: for all pods."""

    ignorable: bool = False
    """Go on without the extender if a call fails. Default: false."""


class KubeSchedulerConfiguration(ConfigStruct, frozen=True):
    """The whole configuration of a scheduler process."""

    always_written: ClassVar[frozenset[str]] = frozenset(
        {
            *("parallelism", "leader_election", "client_connection"),
            *("enable_profiling", "enable_contention_profiling", "percentage_of_nodes_to_score"),
            *("pod_initial_backoff_seconds", "pod_max_backoff_seconds"),
        }
    )

    parallelism: Int32 = 16
    """Goroutines upstream uses to look at nodes; must be positive. Default: 16."""

    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    """Leader election."""

    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    """Connection to the API server."""

    enable_profiling: bool = True
    """Serve upstream's `/debug/pprof`. Default: true. Not used here."""

    enable_contention_profiling: bool = True
    """Profile lock contention. Default: `enable_profiling`. Not used here."""

    percentage_of_nodes_to_score: Int32 = 0
    """Share of the nodes, in percent, after which the search for feasible nodes stops.

    0 is adaptive: the larger the cluster, the smaller the share. Default: 0.
    """

    pod_initial_backoff_seconds: Int64 = 1
    """Backoff of a pod after its first failed attempt, in seconds; it doubles. Default: 1."""

    pod_max_backoff_seconds: Int64 = 10
    """Longest backoff of a pod, in seconds. Default: 10."""

    profiles: tuple[KubeSchedulerProfile, ...] = ()
    """The profiles. Default: one, named `default-scheduler`."""

    extenders: tuple[Extender, ...] = ()
    """The extenders. Default: none."""

    delay_cache_until_active: bool = False
    """Start informers only once leading. Default: false."""
