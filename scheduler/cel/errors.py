"""The errors of CEL, with cel-go's texts."""


class CompileError(Exception):
    """An expression that cannot be evaluated. The text is upstream's."""


class CelError(Exception):
    """An expression failed on a value; the text is upstream's."""


def no_such_overload() -> CelError:
    """Return the error of an operation on values of the wrong types."""
    return CelError("no such overload")
