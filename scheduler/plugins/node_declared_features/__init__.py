"""NodeDeclaredFeatures: nodes that declare the features a pod needs."""

from scheduler.plugins.node_declared_features.plugin import NodeDeclaredFeatures

__all__ = ["NodeDeclaredFeatures"]
