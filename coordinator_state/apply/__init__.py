"""Applies one micro-batch to the state before it.

This package imports `insight` and the packages below it, but not `model`.
"""
