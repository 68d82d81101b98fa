"""The predicates and priorities of kube-scheduler v1.13 to v1.22 that have no successor.

The plugins are named after the predicates and priorities that they replace. No profile has them
unless a policy (`scheduler.flags.policy_translation`), or a flag such as
`--plugin scheduler.plugins.legacy.scores:EqualPriority`, enables them. Scores of v1.13 go from 0 to
10; the plugins multiply them by 10, as the scheduler does with extenders' scores.
"""
