"""The command `run`: its settings, its query, the start, supervision, jobs and HTTP endpoints.

Also `maintain` and `redecode`, which open a tables folder as `run` does. Imports `dashboard` and
the packages below it.
"""
