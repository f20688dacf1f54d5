"""The tables for agents: a read-only server of the Model Context Protocol.

Imports `http`, `served` and the packages below them.
"""
