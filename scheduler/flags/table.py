"""The table of all flags: kube-scheduler v1.36.3's names, types and defaults, and ours.

Flags marked "No effect" are accepted and checked, and have nothing to act on here: there is no
HTTP/2, no protobuf, no goroutine and no block profile.
Source: kube-scheduler `app/options/options.go`, `deprecated.go`, and the `AddFlags` of apiserver
`pkg/server/options` and of component-base. The last group is ours.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from scheduler.config.feature_gates import help_lines
from scheduler.flags.flag_set import (
    BOOL,
    DURATION,
    FEATURE_GATES,
    FLOAT32,
    INT,
    INT32,
    INT32_SLICE,
    IP,
    LEVEL,
    MODULE_LEVELS,
    NAMED_CERT_KEY,
    PORT,
    QUANTITY,
    STRING,
    STRING_TO_STRING,
    STRINGS,
    VERSION,
    Flag,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ALPHA: Final = "Needs the feature gate LoggingAlphaOptions."
_NO_CONFIG: Final = "Deprecated; ignored with --config."

_MISC: Final = (
    Flag("config", STRING, "", "The file of the KubeSchedulerConfiguration."),
    Flag("master", STRING, "", "The URL of the API server; replaces that of the kubeconfig."),
    Flag("write-config-to", STRING, "", "Write the configuration to this file, and exit."),
)
_SECURE_SERVING: Final = (
    Flag("bind-address", IP, "0.0.0.0",
         "The address to serve HTTPS on; 0.0.0.0 and :: mean all addresses."),
    Flag("cert-dir", STRING, "", "The directory of a generated certificate."),
    Flag("disable-http2-serving", BOOL, "false", "No effect: HTTP/2 is not served."),
    Flag("http2-max-streams-per-connection", INT, "0", "No effect: HTTP/2 is not served."),
    Flag("permit-address-sharing", BOOL, "false", "Listen with SO_REUSEADDR, which is always so."),
    Flag("permit-port-sharing", BOOL, "false",
         "Listen with SO_REUSEPORT, so that several processes may listen on one port."),
    Flag("secure-port", PORT, "10259",
         "The port for HTTPS with authentication and authorization. With 0, nothing is served; "
         "with auto, which is ours, a free port is taken and logged."),
    Flag("tls-cert-file", STRING, "", "The certificate for HTTPS, followed by its authorities."),
    Flag("tls-cipher-suites", STRINGS, "",
         "The cipher suites to allow with TLS 1.2, in Go's names."),
    Flag("tls-curve-preferences", INT32_SLICE, "",
         "Numbers of Go's curves. No effect: OpenSSL chooses the key exchange."),
    Flag("tls-min-version", STRING, "", "The oldest TLS version: VersionTLS12, VersionTLS13."),
    Flag("tls-private-key-file", STRING, "", "The private key of --tls-cert-file."),
    Flag("tls-sni-cert-key", NAMED_CERT_KEY, "",
         "A certificate and key (`cert,key` or `cert,key:*.example.com,example.com`) for clients "
         "that name such a host. May be repeated."),
)  # fmt: skip
_AUTHENTICATION: Final = (
    Flag("authentication-kubeconfig", STRING, "",
         "The API server that reviews tokens. If empty, and outside a cluster, all requests "
         "without a client certificate are anonymous."),
    Flag("authentication-skip-lookup", BOOL, "false",
         "Do not look up the authorities of clients in the cluster."),
    Flag("authentication-token-webhook-cache-ttl", DURATION, "10s",
         "How long the review of a token is cached."),
    Flag("authentication-tolerate-lookup-failure", BOOL, "true",
         "Start even if the authorities of clients cannot be looked up."),
    Flag("client-ca-file", STRING, "", "The authorities of client certificates."),
    Flag("requestheader-allowed-names", STRINGS, "",
         "Common names of proxies that may name users in headers; any name if empty."),
    Flag("requestheader-client-ca-file", STRING, "",
         "The authorities of these proxies. If empty, they are looked up in the cluster."),
    Flag("requestheader-extra-headers-prefix", STRINGS, "x-remote-extra-",
         "The beginnings of a proxy's headers for further attributes of the user."),
    Flag("requestheader-group-headers", STRINGS, "x-remote-group",
         "A proxy's headers for the user's groups."),
    Flag("requestheader-uid-headers", STRINGS, "", "A proxy's headers for the user's uid."),
    Flag("requestheader-username-headers", STRINGS, "x-remote-user",
         "A proxy's headers for the user's name."),
)  # fmt: skip
_AUTHORIZATION: Final = (
    Flag("authorization-always-allow-paths", STRINGS, "/healthz,/readyz,/livez",
         "Paths that need no authorization; a * at the end means all paths that begin so."),
    Flag("authorization-kubeconfig", STRING, "",
         "The API server that reviews access. If empty, and outside a cluster, all other requests "
         "are forbidden."),
    Flag("authorization-webhook-cache-authorized-ttl", DURATION, "10s",
         "How long a permission is cached."),
    Flag("authorization-webhook-cache-unauthorized-ttl", DURATION, "10s",
         "How long a refusal is cached."),
)  # fmt: skip
_DEPRECATED: Final = (
    Flag("contention-profiling", BOOL, "true",
         f"Shown in the configuration. No effect: there is no block profile. {_NO_CONFIG}"),
    Flag("kube-api-burst", INT32, "100",
         f"The number of requests to the API server that may be sent at once. {_NO_CONFIG}"),
    Flag("kube-api-content-type", STRING, "application/vnd.kubernetes.protobuf",
         f"Shown in the configuration. No effect: requests are JSON. {_NO_CONFIG}"),
    Flag("kube-api-qps", FLOAT32, "50",
         f"The number of requests to the API server per second. {_NO_CONFIG}"),
    Flag("kubeconfig", STRING, "", f"The file with the API server's address and our "
         f"credentials. {_NO_CONFIG}"),
    Flag("pod-max-in-unschedulable-pods-duration", DURATION, "5m0s",
         "A pod that has waited so long for an event is tried again all the same. Deprecated."),
    Flag("profiling", BOOL, "true",
         f"Serve profiles of Python at /debug/pprof/, as text. {_NO_CONFIG}"),
)  # fmt: skip
_POLICY: Final = (
    Flag("algorithm-provider", STRING, "",
         "The set of predicates and priorities of v1.13: DefaultProvider or "
         f"ClusterAutoscalerProvider. {_NO_CONFIG}"),
    Flag("policy-config-file", STRING, "",
         "A file with a Policy, in JSON or YAML, which is translated to a profile. "
         f"{_NO_CONFIG}"),
    Flag("policy-configmap", STRING, "",
         "The name of a ConfigMap with a Policy at the key policy.cfg; goes before the file. "
         f"{_NO_CONFIG}"),
    Flag("policy-configmap-namespace", STRING, "kube-system",
         f"The namespace of --policy-configmap. {_NO_CONFIG}"),
    Flag("use-legacy-policy-config", BOOL, "false",
         f"Use --policy-config-file even if there is --policy-configmap. {_NO_CONFIG}"),
)  # fmt: skip
_LEADER_ELECTION: Final = (
    Flag("leader-elect", BOOL, "true",
         "Hold a lease while scheduling, and wait for it if another scheduler holds it."),
    Flag("leader-elect-lease-duration", DURATION, "15s",
         "How long others wait, after the leader has renewed its lease, before they take it."),
    Flag("leader-elect-renew-deadline", DURATION, "10s",
         "How long a leader tries to renew its lease before it ends; less than the lease's "
         "duration."),
    Flag("leader-elect-resource-lock", STRING, "leases",
         "The kind of object to lock with: 'leases' is the only one."),
    Flag("leader-elect-resource-name", STRING, "kube-scheduler",
         "The lease's name. A second scheduler beside kube-scheduler needs one of its own."),
    Flag("leader-elect-resource-namespace", STRING, "kube-system", "The lease's namespace."),
    Flag("leader-elect-retry-period", DURATION, "2s",
         "How long to wait between two tries to get or to renew the lease."),
)  # fmt: skip
_FEATURE_GATES: Final = (
    Flag("emulated-version", STRINGS, "",
         "The version whose features to have: kube=1.36, the only one that is built."),
    Flag("feature-gates", FEATURE_GATES, "",
         "Feature gates to set: NAME=true|false,... May be repeated. A gate is refused if it would "
         "change decisions in a way that is not built.\n"
         + "\n".join(["Options are:", *help_lines()])),
    Flag("min-compatibility-version", STRINGS, "",
         "The oldest version of other components: kube=1.33..1.36. Checked; no effect."),
)  # fmt: skip
_METRICS: Final = (
    Flag("allow-metric-labels", STRING_TO_STRING, "",
         "The values of a label that are shown: METRIC,LABEL='VALUE,VALUE'. All others become "
         "'unexpected'."),
    Flag("allow-metric-labels-manifest", STRING, "",
         "A file with `allowListMapping`, a mapping of the same form."),
    Flag("disabled-metrics", STRINGS, "", "Names of metrics that are not shown."),
    Flag("show-hidden-metrics-for-version", STRING, "",
         "The previous version, 1.35. Checked; no effect: no metric is hidden."),
)  # fmt: skip
_LOGS: Final = (
    Flag("log-flush-frequency", DURATION, "5s",
         "How often buffered lines are written; see --log-text-info-buffer-size."),
    Flag("log-json-info-buffer-size", QUANTITY, "0",
         f"With --log-json-split-stream: the bytes of the buffer before stdout. {_ALPHA}"),
    Flag("log-json-split-stream", BOOL, "false",
         f"In the format json, write errors to stderr and all else to stdout. {_ALPHA}"),
    Flag("log-text-info-buffer-size", QUANTITY, "0",
         f"With --log-text-split-stream: the bytes of the buffer before stdout. {_ALPHA}"),
    Flag("log-text-split-stream", BOOL, "false",
         f"In the format text, write errors to stderr and all else to stdout. {_ALPHA}"),
    Flag("logging-format", STRING, "text", "The format of the log: text or json."),
    Flag("v", LEVEL, "0", "The level of the log. From 2 on, it has a line for each pod.", "v"),
    Flag("vmodule", MODULE_LEVELS, "",
         "Levels of single source files, by the names of the files: reflector=4,priority_*=5."),
)  # fmt: skip
_GLOBAL: Final = (
    Flag("help", BOOL, "false", "Show this help.", "h"),
    Flag("version", VERSION, "false",
         "Show the version; --version=raw shows all of it, --version=v1.36.3-x reports another."),
)  # fmt: skip
_OURS: Final = (
    Flag("check-cache-every", DURATION, "0s",
         "Compare the cache with the API's view so often, when idle, and log what differs."),
    Flag("plugin", STRINGS, "",
         "A plugin of your own (MODULE:CLASS), or the name of an installed one; enabled in every "
         "profile that does not mention it. May be repeated."),
    Flag("seed", STRING, "", "A number that makes chance repeatable."),
    Flag("shadow", BOOL, "false",
         "Write nothing and schedule nothing: decide each pod that another scheduler has bound, "
         "compare, and report on /debug/shadow. There is no leader election then."),
    Flag("shadow-log", STRING, "",
         "With --shadow: append a line of JSON per comparison to this file; - is stdout."),
    Flag("tie-break", STRING, "random",
         "Which of several best nodes to take: random, or first."),
)  # fmt: skip

#: All flags, by the heading of their group.
FLAGS: Final[Mapping[str, Sequence[Flag]]] = MappingProxyType(
    {
        "Misc": _MISC,
        "Secure serving": _SECURE_SERVING,
        "Authentication": _AUTHENTICATION,
        "Authorization": _AUTHORIZATION,
        "Deprecated": _DEPRECATED,
        "Policy (kube-scheduler v1.13 to v1.22)": _POLICY,
        "Leader election": _LEADER_ELECTION,
        "Feature gate": _FEATURE_GATES,
        "Metrics": _METRICS,
        "Logs": _LOGS,
        "Global": _GLOBAL,
        "kubesched's own": _OURS,
    }
)
