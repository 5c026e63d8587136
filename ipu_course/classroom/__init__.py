"""Show how far the learners of a class are: a table of progress, the hardest exercises, a ladder.

The ladder ranks shared answers by their cost. All data come from the learners' progress files, and
no data leave the machine.

    ipu-teach class homes/          # print a table
    ipu-teach class homes/ --serve  # serve a page on this machine that refreshes itself

`roster` finds and reads the progress files. `board` shows their content as a table, a page or
comma-separated text. `ladder` runs shared answers again, `serve` serves the page, and `fresh`
empties the work folders before another class uses the same machines. `preflight` checks before a
workshop whether a machine is ready.
"""
