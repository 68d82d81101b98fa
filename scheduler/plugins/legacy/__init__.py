"""Policies of kube-scheduler v1.13 to v1.22, and the predicates and priorities without a successor.

    --policy-config-file, --policy-configmap, --algorithm-provider
        -> policy.read_policy       the document, checked as v1.13 checked it
        -> translation.translate    a profile, by the table of names `translation.TABLE`

The plugins are named after the predicates and priorities that they replace. No profile has them
unless a policy, or `--plugin scheduler.plugins.legacy.scores:EqualPriority`, enables them. Scores
of v1.13 go from 0 to 10; the plugins multiply them by 10, as extenders' scores are.
"""
