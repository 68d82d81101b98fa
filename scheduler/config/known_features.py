"""The table of kube-scheduler's feature gates: stage, default, dependencies.

Source: `GetAll` and `Dependencies` of the gates of kube-scheduler v1.36.3, whose definitions are in
`pkg/features/kube_features.go`, apiserver `pkg/features`, client-go `features`, component-base.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Stage(enum.Enum):
    """The maturity of a feature, as the help shows it."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = ""
    DEPRECATED = "DEPRECATED"


class FeatureSpec(NamedTuple):
    """A feature's stage and default; the gate of a locked feature only accepts its default."""

    stage: Stage
    default: bool
    locked: bool = False


_NAMES: Final = {
    FeatureSpec(Stage.ALPHA, default=False): """
        APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
        CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR
        ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
        CloudControllerManagerWebhook ContainerStopSignals CrossNamespaceVolumeDataSource
        DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus
        DRAWorkloadResourceClaims EventedPLEG GangScheduling GenericWorkload HPAScaleToZero
        ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
        InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace LoggingAlphaOptions
        ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity NativeHistograms
        PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI
        PodLevelResourceManagers PodLogsQuerySplitStreams PodsAPI QOSReserved
        ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi ShardedListAndWatch
        StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators
        TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions
        UserNamespacesHostNetworkSupport VolumeLimitScaling WindowsCPUAndMemoryAffinity
        WorkloadAwarePreemption WorkloadWithJob
    """,
    FeatureSpec(Stage.BETA, default=True): """
        APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
        AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions
        CRDObservedGenerationTracking ClearingNominatedNodeNameAfterBinding
        ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz ComponentStatusz
        ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging
        DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource
        DRAPartitionableDevices DRAResourceClaimDeviceStatus
        DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
        DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas
        DetectCacheInconsistency EnvFiles ExtendWebSocketsToKubelet GracefulNodeShutdown
        GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HostnameOverride
        InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
        InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax
        KubeletEnsureSecretPulledImages KubeletSeparateDiskGC
        KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
        LoggingBetaOptions MatchLabelKeysInPodTopologySpread
        MatchLabelKeysInPodTopologySpreadSelectorMerge MutablePodResourcesForSuspendedJobs
        MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
        NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching
        PLEGOnDemandRelist PodDeletionCost PodLevelResources
        PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
        PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
        ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus
        ResourceHealthStatusMessage RestartAllContainersOnContainerExits
        RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ
        ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
        StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
        StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
        StatefulSetSemanticRevisionComparison StorageVersionHash StrictIPCIDRValidation
        StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics
        TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions
        TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
        UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO
        WatchCacheInitializationPostStartHook WatchList WatchListClient
        WindowsGracefulNodeShutdown
    """,
    FeatureSpec(Stage.BETA, default=False): """
        ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
        CoordinatedLeaderElection DRADeviceTaintRules
        LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet
        PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator
    """,
    FeatureSpec(Stage.GA, default=True, locked=True): """
        APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource
        AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache
        CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets
        ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess
        DeclarativeValidation DisableAllocatorDualWrite DynamicResourceAllocation
        ExecProbeTimeout ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume
        InOrderInformers InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy
        JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI
        KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
        KubeletPodResourcesGet KubeletTracing LogarithmicScaleDown
        MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
        NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap
        OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero
        PodObservedGenerationTracking PodSchedulingReadiness PreferSameTrafficDistribution
        ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
        RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
        ResilientWatchCacheInitialization RetryGenerateName SELinuxChangePolicy
        SELinuxMountReadWriteOncePod SchedulerQueueingHints SeparateTaintEvictionController
        ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
        ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
        SidecarContainers StreamingCollectionEncodingToJSON
        StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
        SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions
        UserNamespacesSupport VolumeAttributesClass WinDSR WinOverlay
    """,
    FeatureSpec(Stage.GA, default=True): """
        AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList
        InformerResourceVersion MutatingAdmissionPolicy
    """,
    FeatureSpec(Stage.DEPRECATED, default=True, locked=True): """
        AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion
    """,
    FeatureSpec(Stage.DEPRECATED, default=True): """
        DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods
        ServiceCIDRStatusFieldWiping StorageNamespaceIndex
    """,
    FeatureSpec(Stage.DEPRECATED, default=False, locked=True): """
        AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver
        SeparateCacheWatchRPC
    """,
    FeatureSpec(Stage.DEPRECATED, default=False): """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
        ChangeContainerStatusOnKubeletRestart DeclarativeValidationTakeover KMSv1
        KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
    """,
}

#: Every gate of kube-scheduler v1.36.3 by name.
FEATURES: Final[Mapping[str, FeatureSpec]] = MappingProxyType(
    {name: spec for spec, names in _NAMES.items() for name in names.split()}
)

#: A feature that is on needs these features to be on.
DEPENDENCIES: Final = {
    "AuthorizeNodeWithSelectors": "AuthorizeWithSelectors",
    "ClusterTrustBundleProjection": "ClusterTrustBundle",
    "DRAAdminAccess": "DynamicResourceAllocation",
    "DRAConsumableCapacity": "DynamicResourceAllocation",
    "DRADeviceBindingConditions": "DRAResourceClaimDeviceStatus DynamicResourceAllocation",
    "DRADeviceTaintRules": "DRADeviceTaints",
    "DRADeviceTaints": "DynamicResourceAllocation",
    "DRAExtendedResource": "DynamicResourceAllocation",
    "DRAListTypeAttributes": "DynamicResourceAllocation",
    "DRANodeAllocatableResources": "DynamicResourceAllocation",
    "DRAPartitionableDevices": "DynamicResourceAllocation",
    "DRAPrioritizedList": "DynamicResourceAllocation",
    "DRAResourceClaimGranularStatusAuthorization": (
        "DRAResourceClaimDeviceStatus DynamicResourceAllocation"
    ),
    "DRAResourcePoolStatus": "DynamicResourceAllocation",
    "DRASchedulerFilterTimeout": "DynamicResourceAllocation",
    "DRAWorkloadResourceClaims": "DynamicResourceAllocation GenericWorkload",
    "DeclarativeValidationBeta": "DeclarativeValidation",
    "DeclarativeValidationTakeover": "DeclarativeValidation",
    "DisableAllocatorDualWrite": "MultiCIDRServiceAllocator",
    "ExtendWebSocketsToKubelet": "NodeDeclaredFeatures",
    "GangScheduling": "GenericWorkload",
    "GracefulNodeShutdownBasedOnPodPriority": "GracefulNodeShutdown",
    "ImageVolumeWithDigest": "ImageVolume",
    "InPlacePodLevelResourcesVerticalScaling": (
        "InPlacePodVerticalScaling NodeDeclaredFeatures PodLevelResources"
    ),
    "InPlacePodVerticalScalingExclusiveCPUs": "InPlacePodVerticalScaling",
    "InPlacePodVerticalScalingExclusiveMemory": "InPlacePodVerticalScaling",
    "InPlacePodVerticalScalingInitContainers": "InPlacePodVerticalScaling NodeDeclaredFeatures",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": "MatchLabelKeysInPodTopologySpread",
    "PodCertificateRequest": "AuthorizeNodeWithSelectors",
    "PodLevelResourceManagers": "PodLevelResources",
    "PodLifecycleSleepActionAllowZero": "PodLifecycleSleepAction",
    "ProcMountType": "UserNamespacesSupport",
    "ResourceHealthStatus": "DynamicResourceAllocation",
    "ResourceHealthStatusMessage": "ResourceHealthStatus",
    "RestartAllContainersOnContainerExits": "ContainerRestartRules NodeDeclaredFeatures",
    "ServiceAccountTokenNodeBinding": "ServiceAccountTokenNodeBindingValidation",
    "StaleControllerConsistencyDaemonSet": "AtomicFIFO",
    "StaleControllerConsistencyJob": "AtomicFIFO",
    "StaleControllerConsistencyReplicaSet": "AtomicFIFO",
    "StaleControllerConsistencyStatefulSet": "AtomicFIFO",
    "StorageVersionAPI": "APIServerIdentity",
    "StructuredAuthenticationConfigurationEgressSelector": "StructuredAuthenticationConfiguration",
    "StructuredAuthenticationConfigurationJWKSMetrics": "StructuredAuthenticationConfiguration",
    "TopologyAwareWorkloadScheduling": "GenericWorkload",
    "UnknownVersionInteroperabilityProxy": "APIServerIdentity",
    "UserNamespacesHostNetworkSupport": "NodeDeclaredFeatures UserNamespacesSupport",
    "WindowsGracefulNodeShutdown": "GracefulNodeShutdown",
    "WorkloadAwarePreemption": "GangScheduling",
    "WorkloadWithJob": "GenericWorkload",
}
