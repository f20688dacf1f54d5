"""SQL over the tables and views of a snapshot, and the processes that answer queries of others."""
