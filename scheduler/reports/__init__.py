"""Decisions as values that renderers write: a report is computed once, shown as text, JSON or HTML.

    decision   decide one pod over all nodes of a snapshot
    remedies   the changes after which the nearest nodes would fit
    model      the report as structs; its JSON schema is docs/explain.schema.json
    build      from a decision to a report of the pod, from a snapshot to a report of the cluster

Nothing here does I/O: `kubesched-explain` runs it on a cluster in memory, and the scheduler's own
port on the running scheduler's snapshot.
"""
