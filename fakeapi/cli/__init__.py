"""The command line `kubesched-fakeapi`: one module per group of options."""

from fakeapi.cli.command import main

__all__ = ["main"]
