"""The page: the tables for people, rendered on the server, read without Spark.

Imports `metrics`, `views` and the packages below them.
"""
