"""Lesson 03: PopLibs: operations and views."""
