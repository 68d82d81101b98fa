"""A conformance suite that judges any scheduler over HTTP.

A case says what a cluster holds, what happens to it, and what the scheduler must have done; see
README.md for the format. Each case gets an API server (`fakeapi`) and a scheduler of its own. The
scheduler is a command that takes a kubeconfig, or one that runs in this process on a clock that the
suite moves, so that five minutes pass in milliseconds.
"""
