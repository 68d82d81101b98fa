"""The errors of CEL, with cel-go's texts."""


class CompileError(Exception):
    """An expression that cannot be evaluated. The text is upstream's."""


class CelError(Exception):
    """An expression failed on a value; the text is upstream's."""


class NoSuchOverloadError(CelError):
    """An operation got values of the wrong types."""


def no_such_overload(name: str = "") -> NoSuchOverloadError:
    """Return the error of an operation, which it names where upstream does."""
    return NoSuchOverloadError(f"no such overload: {name}" if name else "no such overload")
