"""From an HTTP request to the verb that answers it: routes, options and bodies."""
