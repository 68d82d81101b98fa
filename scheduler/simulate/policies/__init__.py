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

with `--plugin scheduler.simulate.policies.best_fit:BestFit`. `docs/fgd.md` names the study.
"""
