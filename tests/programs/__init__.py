"""Complete programs, each like one of Poplar's tutorials or like a public recipe.

Every module has a `main()` that builds a graph, runs it and returns the results. They are written
to be read and ported from; tests/test_programs.py runs them.
"""
