"""Tests of the scheduler's own port."""
