"""A class: each learner's position, the hardest exercises and a ladder of shared answers.

They are read from the learners' own progress files.

    ipu-teach class homes/          # a table
    ipu-teach class homes/ --serve  # a page on this machine that refreshes itself

`roster` finds and reads the files. `board` shows their content as a table, a page or
comma-separated text. `ladder` replays shared answers, `serve` serves the page, and `fresh` clears
the work folders for a second group. `preflight` checks before the day whether a machine is ready.
No data leaves the machine.
"""
