"""Small helpers that belong to no package of the runtime."""
