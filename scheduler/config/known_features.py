"""The tables of kube-scheduler's feature gates: stage, default, dependencies, earlier versions.

Source: `GetAll`, also after `SetEmulationVersion`, and `Dependencies` of the gates of
kube-scheduler v1.36.3, whose definitions are in
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

#: The features that an earlier version has otherwise than the next one; None: not yet.
_EARLIER: Final[dict[int, dict[FeatureSpec | None, str]]] = {
    35: {
        None: """
            AtomicFIFO CRIListStreaming ClientsAllowCARotation ClientsAllowTLSCacheGC
            DRAListTypeAttributes DRANodeAllocatableResources
            DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus
            DRAWorkloadResourceClaims DeclarativeValidationBeta ExtendWebSocketsToKubelet
            InPlacePodVerticalScalingInitContainers ManifestBasedAdmissionControlConfig
            NativeHistograms PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime
            PodLevelResourceManagers PodsAPI ReloadKubeletClientCAFile ResourceHealthStatusMessage
            ShardedListAndWatch StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
            StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
            TopologyAwareWorkloadScheduling UnlockWhileProcessingFIFO WorkloadAwarePreemption
            WorkloadWithJob
        """,
        FeatureSpec(Stage.GA, default=False): """
            ServiceCIDRStatusFieldWiping
        """,
        FeatureSpec(Stage.GA, default=True): """
            VolumeAttributesClass
        """,
        FeatureSpec(Stage.ALPHA, default=False): """
            ComponentFlagz ComponentStatusz ConstrainedImpersonation CustomCPUCFSQuotaPeriod
            DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints
            DRAExtendedResource DRAPartitionableDevices InPlacePodLevelResourcesVerticalScaling
            MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
            NodeDeclaredFeatures RelaxedServiceNameValidation ResourceHealthStatus
            RestartAllContainersOnContainerExits StrictIPCIDRValidation
            UnknownVersionInteroperabilityProxy
        """,
        FeatureSpec(Stage.BETA, default=False): """
            CRDObservedGenerationTracking DeclarativeValidationTakeover MutatingAdmissionPolicy
            NodeLogQuery WatchCacheInitializationPostStartHook
        """,
        FeatureSpec(Stage.BETA, default=True): """
            CSIServiceAccountTokenSecrets DRAAdminAccess DRAPrioritizedList DeclarativeValidation
            DisableCPUQuotaWithExclusiveCPUs ExternalServiceAccountTokenSigner ImageVolume
            InOrderInformers KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
            KubeletPodResourcesGet MutableCSINodeAllocatableCount ProcMountType SELinuxChangePolicy
            SELinuxMountReadWriteOncePod UserNamespacesSupport
        """,
        FeatureSpec(Stage.DEPRECATED, default=False): """
            GitRepoVolumeDriver SeparateCacheWatchRPC
        """,
        FeatureSpec(Stage.DEPRECATED, default=True): """
            DisableNodeKubeProxyVersion
        """,
    },
    34: {
        None: """
            AuthorizePodWebsocketUpgradeCreatePermission CRDObservedGenerationTracking
            CSIServiceAccountTokenSecrets CloudControllerManagerWatchBasedRoutesReconciliation
            ConstrainedImpersonation DRADeviceTaintRules GangScheduling GenericWorkload
            ImageVolumeWithDigest InOrderInformersBatchProcess
            InPlacePodLevelResourcesVerticalScaling MutablePVNodeAffinity
            MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
            NodeDeclaredFeatures OpportunisticBatching RestartAllContainersOnContainerExits
            StructuredAuthenticationConfigurationJWKSMetrics TaintTolerationComparisonOperators
            UserNamespacesHostNetworkSupport VolumeLimitScaling
        """,
        FeatureSpec(Stage.GA, default=True): """
            ChangeContainerStatusOnKubeletRestart DisableAllocatorDualWrite
            DynamicResourceAllocation ExecProbeTimeout
        """,
        FeatureSpec(Stage.ALPHA, default=False): """
            ClearingNominatedNodeNameAfterBinding ContainerRestartRules
            DeploymentReplicaSetTerminatingReplicas EnvFiles HPAConfigurableTolerance
            HostnameOverride InformerResourceVersion KubeletCrashLoopBackOffMax
            KubeletEnsureSecretPulledImages MaxUnavailableStatefulSet
            NominatedNodeNameForExpectation PodCertificateRequest PodTopologyLabelsAdmission
            StorageVersionMigrator
        """,
        FeatureSpec(Stage.BETA, default=False): """
            ImageVolume MutableCSINodeAllocatableCount WatchListClient
        """,
        FeatureSpec(Stage.BETA, default=True): """
            ImageMaximumGCAge InPlacePodVerticalScaling JobManagedBy PodObservedGenerationTracking
            PreferSameTrafficDistribution SupplementalGroupsPolicy SystemdWatchdog
        """,
        FeatureSpec(Stage.DEPRECATED, default=False): """
            AllowOverwriteTerminationGracePeriodSeconds
        """,
        FeatureSpec(Stage.DEPRECATED, default=True): """
            AggregatedDiscoveryRemoveBetaType
        """,
    },
    33: {
        None: """
            ClearingNominatedNodeNameAfterBinding ContainerRestartRules DRAConsumableCapacity
            DRADeviceBindingConditions DRAExtendedResource DRASchedulerFilterTimeout
            DetectCacheInconsistency EnvFiles HostnameOverride
            InPlacePodVerticalScalingExclusiveMemory MatchLabelKeysInPodTopologySpreadSelectorMerge
            NominatedNodeNameForExpectation PodCertificateRequest PreventStaticPodAPIReferences
            RelaxedServiceNameValidation SchedulerAsyncAPICalls SizeBasedListCostEstimate
            StructuredAuthenticationConfigurationEgressSelector
            TokenRequestServiceAccountUIDValidation
        """,
        FeatureSpec(Stage.GA, default=False): """
            KubeletPodResourcesListUseActivePods
        """,
        FeatureSpec(Stage.GA, default=True): """
            MultiCIDRServiceAllocator
        """,
        FeatureSpec(Stage.ALPHA, default=False): """
            DRAAdminAccess DRAPrioritizedList ExternalServiceAccountTokenSigner KubeletPSI
            KubeletPodResourcesDynamicResources KubeletPodResourcesGet
            KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
            MutableCSINodeAllocatableCount MutatingAdmissionPolicy PodLevelResources
            PodObservedGenerationTracking PreferSameTrafficDistribution WindowsGracefulNodeShutdown
        """,
        FeatureSpec(Stage.BETA, default=False): """
            DisableAllocatorDualWrite DynamicResourceAllocation VolumeAttributesClass WatchList
        """,
        FeatureSpec(Stage.BETA, default=True): """
            APIServerTracing AnonymousAuthConfigurableEndpoints AuthorizeNodeWithSelectors
            AuthorizeWithSelectors ConsistentListFromCache JobPodReplacementPolicy
            KubeletCgroupDriverFromCRI KubeletTracing NodeSwap OrderedNamespaceDeletion
            PodLifecycleSleepAction PodLifecycleSleepActionAllowZero RecoverVolumeExpansionFailure
            RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
            ResilientWatchCacheInitialization SchedulerQueueingHints SeparateTaintEvictionController
            StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
            StructuredAuthenticationConfiguration WinDSR WinOverlay
        """,
    },
}

#: The minor version of the gates in `FEATURES`, and the oldest that can be emulated.
NEWEST_MINOR: Final = 36
OLDEST_MINOR: Final = min(_EARLIER)


def features_of(minor: int) -> Mapping[str, FeatureSpec]:
    """Return the features of version 1.`minor`, as the newest version emulates it."""
    found: dict[str, FeatureSpec | None] = {**FEATURES}
    for earlier in range(NEWEST_MINOR - 1, minor - 1, -1):
        for spec, names in _EARLIER[earlier].items():
            found.update(dict.fromkeys(names.split(), spec))
    return {name: spec for name, spec in found.items() if spec is not None}


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
