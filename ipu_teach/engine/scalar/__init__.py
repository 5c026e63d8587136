"""Scalar loops: what runs a codelet that goes through its elements one by one, by CPython or by
compiled code."""
