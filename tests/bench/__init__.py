"""Micro-benchmarks. They print numbers and assert nothing: `python -m tests.bench`."""
