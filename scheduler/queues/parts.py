"""The values that the parts of the plugin share in one profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scheduler.framework.handle import Handle
    from scheduler.queues.args import QueuesArgs
    from scheduler.queues.ledger import Ledger
    from scheduler.queues.order import Order
    from scheduler.queues.reservations import Reservations


class Parts(NamedTuple):
    """The ledger and the reservations belong to all profiles, the others to one."""

    handle: Handle
    args: QueuesArgs
    ledger: Ledger
    order: Order
    reservations: Reservations
