"""Quotas: the use of objects, the scopes of quotas, and the status of quotas.

The admission plugin ResourceQuota compares each write with the accounts of `QuotaBooks`, which
follows the store, so that `status.used` of every quota is right after each write.

    usage    object -> amounts by the name a quota has for them
    scopes   the objects that a quota counts
    books    QuotaBooks: status.hard and status.used

Source: pkg/quota/v1, apiserver pkg/quota/v1 and pkg/controller/resourcequota of v1.36.3.
"""
