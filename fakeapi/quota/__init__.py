"""Quotas: the use of objects, the scopes of quotas, and the status of quotas.

`QuotaController` follows the store, so that `status.used` of every quota is right after each write.
The admission plugin ResourceQuota calls its `check`.

    usage        object -> amounts by the name a quota has for them
    scopes       the objects that a quota counts
    controller   QuotaController: status.hard and status.used

Source: pkg/quota/v1, apiserver pkg/quota/v1 and pkg/controller/resourcequota of v1.36.3.
"""
