"""Models of kubelets, owners of pods, disruption budgets and volumes.

`docs/simulate.md` describes the models and their limits. A model reaches the cluster through
`SimulatedCluster` only.
"""

from scheduler.simulate.controllers.budgets import Budgets
from scheduler.simulate.controllers.kubelets import Kubelets
from scheduler.simulate.controllers.owners import Owners, controller_of
from scheduler.simulate.controllers.volumes import Volumes

__all__ = ["Budgets", "Kubelets", "Owners", "Volumes", "controller_of"]
