"""Small helpers that belong to no package of the runtime.

- `own_code` and `tracebacks` tell the kit's code from the user's.
- `elsewhere` finds the module that has a missing name.
- `progress` shows the progress of long work, and `interrupts` handles Ctrl-C during a run.
- `outcomes` calls one function for several arguments.
- `snapshot` records and restores the state of Python objects. It reads containers with
  `containers`.
- `flags` checks arguments that are True or False, and `places` finds and writes files.
"""
