"""Tables: what `kubectl get` shows, made by the server.

A `Printer` is columns and a function from an object to its cells; there is one for each kind that
upstream has one for, one made from additionalPrinterColumns for custom resources, and a default.
"""

from __future__ import annotations

from fakeapi.printing.custom import custom_printer
from fakeapi.printing.tables import printer_of, row, table

__all__ = ["custom_printer", "printer_of", "row", "table"]
