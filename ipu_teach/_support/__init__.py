"""Small helpers that belong to no package of the runtime.

`own_code` and `tracebacks` tell the kit's code from the user's, `elsewhere` where a missing name
is; `progress` and `interrupts` serve what takes long, `outcomes` one function for several
arguments; `flags` are arguments that are True or False, and `places` finds and writes files.
"""
