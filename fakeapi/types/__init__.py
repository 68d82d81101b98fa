"""Values without state: objects, names, quantities, times, errors, schemas."""
