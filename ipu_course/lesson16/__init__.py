"""Lesson 16: ImageNet in minutes."""
