"""OpenLineage events: which groups read which topics, and the job of `run` itself.

Imports `alerts`, for its HTTP posts, `lag`, `tables` and `kafka`. The package `openlineage-python`
is an extra, so other packages import this one only if `run --openlineage` asks for it.
"""
