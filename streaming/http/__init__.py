"""HTTP servers: the server itself, its host names, and who may see its answers.

Imports `alerts` and the packages below it.
"""
