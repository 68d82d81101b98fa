"""The built-in kinds, one file for each kind or family: row, defaults, rules, columns."""
