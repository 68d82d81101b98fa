"""`python -m tests.upstream` prints which share of upstream's plugin tests runs here."""

import sys

from tests.upstream.shares import shares, table

if __name__ == "__main__":
    sys.stdout.write(table(shares()) + "\n")
