"""Processes that run SQL queries of users over the tables and views of a snapshot."""
