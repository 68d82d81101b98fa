"""The one error of this package.

`ConfigError` is a text for a person: one line that says which field of the file is wrong, and how.
What caused it (an `OSError`, a YAML error, a `FieldError`) is chained. Mistakes that only show once
the whole configuration is known are not raised but listed, see `scheduler.config.validation`.
"""

from __future__ import annotations


class ConfigError(ValueError):
    """The configuration cannot be read; the text is one line."""
