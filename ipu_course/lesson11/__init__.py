"""Lesson 11: Numbers."""
