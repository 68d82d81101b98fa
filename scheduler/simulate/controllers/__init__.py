"""Models of what surrounds a scheduler: kubelets, owners of pods, disruption budgets, volumes.

`docs/simulate.md` describes them, and what they do not model. They reach the cluster through
`SimulatedCluster` only.
"""

from scheduler.simulate.controllers.budgets import Budgets
from scheduler.simulate.controllers.kubelets import Kubelets
from scheduler.simulate.controllers.owners import Owners, controller_of
from scheduler.simulate.controllers.volumes import Volumes

__all__ = ["Budgets", "Kubelets", "Owners", "Volumes", "controller_of"]
