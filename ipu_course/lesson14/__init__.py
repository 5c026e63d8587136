"""Lesson 14: Stencils and graphs."""
