"""Compare random programs, on every path of the engine, with the judge.

python3 run.py fuzz --minutes 5
"""
