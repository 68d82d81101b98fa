"""The Common Expression Language with Kubernetes' types, as selectors of devices use it."""

from scheduler.cel.errors import CelError, CompileError
from scheduler.cel.program import Program, compile_expression, compile_value
from scheduler.cel.types import Environment, StructType
from scheduler.cel.values import DefaultMap

__all__ = [
    "CelError",
    "CompileError",
    "DefaultMap",
    "Environment",
    "Program",
    "StructType",
    "compile_expression",
    "compile_value",
]
