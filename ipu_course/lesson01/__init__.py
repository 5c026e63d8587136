"""Lesson 01: Bulk synchronous parallel."""
