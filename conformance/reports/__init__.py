"""Reports of a run: on the terminal and as JUnit XML."""
