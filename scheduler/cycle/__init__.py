"""The scheduling cycle and the binding cycle of one pod, and the loop that runs them."""
