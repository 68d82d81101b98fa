"""Admission: the plugins of kube-apiserver that matter to scheduling, in upstream's order.

One plugin is one class; `selection` lists the plugins in order, and the plugins on by default.

    the flags ──selection──> AdmissionChain ──mutate──> Plugin.mutate, each in turn
                                            ──validate─> Plugin.check, each in turn

The plugins that upstream has on by default are on, except for TaintNodesByCondition: only a node
controller undoes its work.

Source: plugin/pkg/admission and pkg/kubeapiserver/options/plugins.go of Kubernetes v1.36.3.
"""

from fakeapi.admission.chain import AdmissionChain, Plugin

__all__ = [
    "AdmissionChain",
    "Plugin",
]
