"""Whole programs, each in the shape of one of Poplar's tutorials or of a public recipe, written for
this kit.

Every module has a `main()` that builds a graph, runs it and returns what came out. They are there
to be read and ported from; tests/test_programs.py runs them.
"""
