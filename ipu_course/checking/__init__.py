"""Check the learner's answers, and give hints, predictions, progress and notebooks.

`exercise` describes an exercise. All checks share `calling`, `comparing`, `quoting` and `verdicts`.
Checks whose answers are programs of the simulated machine also share `trial`. `judging` runs a
check within its time limit. An "answer" is the learner's solution of an exercise: a function, a
class or a value.
"""
