"""Lesson 10: Many IPUs."""
