"""Lesson 12: PopSparse."""
