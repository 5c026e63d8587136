"""Small helpers that belong to no package of the runtime.

- `own_code` and `tracebacks` tell the kit's code from the user's.
- `elsewhere` finds the module that has a missing name.
- `progress` and `interrupts` are for long work, and `outcomes` for calls of one function with
  several arguments.
- `snapshot` records and restores the state of Python objects, with `containers`.
- `flags` checks arguments that are True or False, and `places` finds and writes files.
"""
