"""The command `run`: settings, query, start, supervision, background jobs and HTTP endpoints.

Also `maintain` and `redecode`, which open a tables folder as `run` does. Imports `dashboard` and
the packages below it.
"""
