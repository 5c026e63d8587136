"""The machinery of lessons: check, hint, predict, trial runs, verdicts, progress and notebooks.

`exercise` describes an exercise. All checks share `calling`, `comparing`, `quoting` and `verdicts`,
and those of answers that are programs share `trial`. `judging` runs a check within its time limit.
"""
