"""Admission: the plugins of kube-apiserver that matter to scheduling, in upstream's order.

One plugin is one class in a file of its own; `selection` knows them all, their order, which are on
unless told otherwise, and what the flags say. `chain` is what they have in common, and all that
this door shows: some plugins keep books, which are made of what stands above the chain.

    the flags ──selection──> AdmissionChain ──mutate──> Plugin.mutate, each in turn
                                            ──validate─> Plugin.check, each in turn

On by default is what upstream has on, but for TaintNodesByCondition and
StorageObjectInUseProtection: they begin what a node controller and a protection controller would
have to finish. Admission is about plugins; that matchLabelKeys become part of selectors is not
among them but done by the strategy of pods, here as upstream.

Source: plugin/pkg/admission and pkg/kubeapiserver/options/plugins.go of Kubernetes v1.36.3.
"""

from fakeapi.admission.chain import AdmissionChain, Plugin

__all__ = [
    "AdmissionChain",
    "Plugin",
]
