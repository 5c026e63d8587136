"""The machinery of lessons: check, hint, predict, trial runs, verdicts, progress and notebooks.

`exercise` describes an exercise, `judging` is shared by all checks, and `trial` by the checks of
answers that are programs.
"""
