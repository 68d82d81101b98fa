"""The parts of a pod group's scheduling cycle; `cycle/schedule_pod_group.py` runs them."""
