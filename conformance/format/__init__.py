"""The format of cases: read, validate and convert files of cases to values."""
