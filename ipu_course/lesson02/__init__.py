"""Lesson 02: Variables, mapping, programs."""
