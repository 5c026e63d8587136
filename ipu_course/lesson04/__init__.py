"""Lesson 04: Vertices, codelets, compute sets."""
