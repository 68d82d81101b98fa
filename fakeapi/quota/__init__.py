"""Quotas: what an object uses, which quotas it counts for, and the books about it.

The admission plugin ResourceQuota asks the books whether a write still fits; the books follow the
store, so that `status.used` of every quota is right after each write.

    usage    object -> amounts by the name a quota has for them
    scopes   which objects a quota is about
    books    QuotaBooks: status.hard and status.used

Source: pkg/quota/v1, apiserver pkg/quota/v1 and pkg/controller/resourcequota of v1.36.3.
"""
