"""The command `run`: settings, query, start, supervision, background jobs and HTTP endpoints.

Also `maintain`, which opens a tables folder as `run` does. Imports `dashboard` and
the packages below it.
"""
