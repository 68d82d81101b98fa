"""A writer of protobuf messages for tests: field numbers and values in, bytes out.

Independent of the library and the tables that the server reads with.
"""

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _BYTES = 0, 2


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def message(*fields: tuple[int, bytes | str | int]) -> bytes:
    """A message of these fields, in this order; a field may be given more than once."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [varint(number << 3 | _VARINT), varint(value)]
        else:
            raw = value.encode() if isinstance(value, str) else value
            parts += [varint(number << 3 | _BYTES), varint(len(raw)), raw]
    return b"".join(parts)


def enveloped(api_version: str, kind: str, body: bytes) -> bytes:
    """A request body: magic, and the message in a runtime.Unknown."""
    type_meta = message((1, api_version), (2, kind))
    return _MAGIC + message((1, type_meta), (2, body), (3, ""), (4, ""))


def metadata(name: str, *more: tuple[int, bytes | str | int]) -> bytes:
    """An ObjectMeta with the empty fields that Go's encoder writes, too."""
    empty = ((2, ""), (4, ""), (5, ""), (6, ""), (7, 0), (8, b""))
    return message((1, name), *empty, *more)


def quantity_entry(resource: str, quantity: str) -> bytes:
    """An entry of a ResourceList."""
    return message((1, resource), (2, message((1, quantity))))
