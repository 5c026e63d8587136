"""A class: who is where, what stops most, and the ladder of shared answers; read from the learners'
own progress files.

    ipu-teach class homes/          # a table
    ipu-teach class homes/ --serve  # a page on this machine that refreshes itself

`roster` finds and reads the files, `board` says what they hold, as a table, a page or
comma-separated text, `ladder` replays what was shared, `serve` shows the page, `fresh` makes room
for a second group. `preflight` asks a machine whether it is ready, before the day. Nothing leaves
the machine.
"""
