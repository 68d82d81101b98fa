"""Programs that ask a server at random, and look whether it bears it."""
