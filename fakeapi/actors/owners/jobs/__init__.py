"""Jobs: pods until enough of them have succeeded, or too many have failed.

Pods carry a finalizer until they are counted, so that none is lost. Source: pkg/controller/job and
pkg/controller/ttlafterfinished of Kubernetes v1.36.3.
"""

from __future__ import annotations

from fakeapi.actors.owners.jobs.controller import Jobs
from fakeapi.actors.owners.jobs.expiry import FinishedJobs

__all__ = ["FinishedJobs", "Jobs"]
