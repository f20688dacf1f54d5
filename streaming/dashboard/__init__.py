"""The page: what the tables say, for people; read without Spark, rendered on the server."""
