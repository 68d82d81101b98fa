"""Tables, as `kubectl get` shows them. The columns of a kind are in its row in kinds/."""
