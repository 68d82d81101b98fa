"""Compare a step's expectation with objects, events, metrics and requests."""
