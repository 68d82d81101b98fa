"""The arguments of FlowPlacement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.api import field
from scheduler.api.names import label_key_errors
from scheduler.config.types import PluginArgs

if TYPE_CHECKING:
    from scheduler.api.field import FieldError
    from scheduler.config.types import FeatureGates

MODEL_NAMES: Final = ("ProfileScores", "Octopus", "CpuMemory", "Locality", "Network")
#: The number of pods that are planned in one step of the event loop.
_BATCH_MAX: Final = 2000


class FlowPlacementArgs(PluginArgs, frozen=True):
    """The arguments of FlowPlacement, in upstream's spelling."""

    cost_model: str = "ProfileScores"
    """`ProfileScores`, `Octopus`, `CpuMemory`, `Locality` or `Network`."""

    batch_size: int = 50
    """The largest number of pods of a batch. A pod group is planned whole, whatever its size."""

    candidates: int = 50
    """The nodes that a class of equal pods may get, the best ones; more if their room is short."""

    data_annotation: str = "flow.kubesched.io/data"
    """Locality: the annotation of a pod with its data by node."""

    rack_label: str = "topology.kubernetes.io/zone"
    """Locality: the label of nodes with their rack."""

    bandwidth_resource: str = ""
    """Network: the extended resource that is bandwidth."""

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """Return the errors of all fields."""
        errors = []
        at = field.child_path
        if self.cost_model not in MODEL_NAMES:
            errors.append(field.not_supported(at(path, "costModel"), self.cost_model, MODEL_NAMES))
        if not 2 <= self.batch_size <= _BATCH_MAX:
            text = f"must be between 2 and {_BATCH_MAX}"
            errors.append(field.invalid(at(path, "batchSize"), self.batch_size, text))
        if self.candidates < 1:
            text = "must be greater than 0"
            errors.append(field.invalid(at(path, "candidates"), self.candidates, text))
        for name, key in (
            ("dataAnnotation", self.data_annotation),
            ("rackLabel", self.rack_label),
            ("bandwidthResource", self.bandwidth_resource),
        ):
            if name == "bandwidthResource" and not key:
                if self.cost_model == "Network":
                    text = "must name an extended resource for the cost model Network"
                    errors.append(field.required(at(path, name), text))
                continue
            errors += [field.invalid(at(path, name), key, text) for text in label_key_errors(key)]
        return errors
