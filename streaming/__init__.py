"""Everything with an outside: Kafka source, Delta tables, embedded broker, command line."""
