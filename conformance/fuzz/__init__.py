"""Search for cases in which a scheduler breaks an invariant, on one machine or on many."""
