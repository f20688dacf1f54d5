"""SQL over the tables and views of a snapshot, and processes that answer queries from outside."""
