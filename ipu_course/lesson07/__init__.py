"""Lesson 07: MNIST logistic regression."""
