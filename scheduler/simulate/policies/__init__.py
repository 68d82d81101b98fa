"""Policies for clusters with shared GPUs: the plugins of the FGD study.

`GpuShare` keeps the idle part of each GPU, rejects nodes without room, and chooses GPUs. A policy
is a subclass with a score. A profile enables one of them:

    profiles:
    - plugins:
        multiPoint:
          disabled: [{name: "*"}]
          enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: BestFit}]
        filter:
          enabled: [{name: NodeResourcesFit}]

with `--plugin scheduler.simulate.policies.best_fit:BestFit`. The policies are described in "Beware
of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC
2023), and written after its repository `hkust-adsl/kubernetes-scheduler-simulator`.
"""
