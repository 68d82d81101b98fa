"""Tests of `scheduler.queues`, and the player of kube-batch's recorded sessions."""
