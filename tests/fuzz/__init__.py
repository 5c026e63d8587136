"""The fuzzer of record: random programs on every way of running, against the judge. `python3 run.py
fuzz --minutes 5`."""
