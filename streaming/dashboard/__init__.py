"""The web page of the tables, rendered on the server and read without Spark.

Imports `metrics`, `views` and the packages below them.
"""
