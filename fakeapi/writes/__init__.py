"""The write pipeline: verbs, defaults, admission, ownership, deletion."""
