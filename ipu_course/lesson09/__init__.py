"""Lesson 09: Streaming memory."""
