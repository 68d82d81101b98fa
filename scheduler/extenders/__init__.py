"""Extenders over HTTP: the scheduler's requests, and the use of the answers.

    http_extender   one extender: its verbs, requests and answers
    http_client     its connection: TLS, timeout, the texts of errors

Source: `pkg/scheduler/extender.go`, `k8s.io/kube-scheduler/extender/v1`.
"""

from scheduler.extenders.http_extender import HTTPExtender, HTTPExtenders

__all__ = ["HTTPExtender", "HTTPExtenders"]
