"""The web page of the tables, rendered on the server and read without Spark.

Imports `api` and the packages below it.
"""
