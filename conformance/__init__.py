"""A conformance suite that tests any scheduler over HTTP.

A case lists the objects of a cluster, the steps, and the expected behaviour of the scheduler; the
format is in README.md. Each case gets an API server (`fakeapi`) and a scheduler of its own. The
scheduler is a command that takes a kubeconfig, or a function that runs in this process on a virtual
clock, where five minutes pass in milliseconds.
"""
