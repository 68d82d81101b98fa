"""`python -m fakeapi` is `kubesched-fakeapi`."""

from __future__ import annotations

from fakeapi.cli import main

if __name__ == "__main__":
    main()
