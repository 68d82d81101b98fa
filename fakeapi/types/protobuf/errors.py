"""The error of a decoder, for its callers and for the module that is loaded late."""


class WireError(ValueError):
    """The bytes are not a message of the wanted type; `str()` is the text of upstream's decoder."""
