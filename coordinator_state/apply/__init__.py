"""One micro-batch applied to the state before it.

Imports `insight` and the packages below it; not `model`.
"""
