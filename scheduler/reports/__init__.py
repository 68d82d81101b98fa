"""Decisions as values that renderers write: a report is computed once, shown as text, JSON or HTML.

    decision   decide one pod over all nodes of a snapshot
    remedies   the distinct changes after which a pod would fit
    cause      the cause of a decision as one sentence
    model      the report as structs; its JSON schema is docs/explain.schema.json
    summary    the counts of many decisions, and the pods by owner and cause
    build      from a decision to a report of the pod, from a snapshot to a report of the cluster

Nothing here does I/O: `kubesched-explain` runs it on a cluster in memory, and the scheduler's own
port on the running scheduler's snapshot.
"""
