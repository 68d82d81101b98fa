"""Test with a scheduler from Python, over HTTP.

`Cluster` is an API server and a scheduler in virtual time, with steps and expectations as method
calls. `RunningScheduler` is a scheduler beside a `fakeapi.BackgroundServer` in real time. In pytest
they are the fixtures `cluster` and `scheduler`, see `conformance/pytest_plugin.py`.
"""

from .cluster import Cluster, Pod
from .running_scheduler import RunningScheduler

__all__ = ["Cluster", "Pod", "RunningScheduler"]
