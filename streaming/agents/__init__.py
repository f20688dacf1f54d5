"""The tables for agents: a read-only server of the Model Context Protocol.

Its tools are operations of `api`. Imports `api`, `http`, `served` and the packages below them.
"""
