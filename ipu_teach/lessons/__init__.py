"""The lessons: where they lie, and how they run without a browser."""
