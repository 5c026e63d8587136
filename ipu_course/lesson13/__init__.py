"""Lesson 13: Frameworks."""
