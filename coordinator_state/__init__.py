"""The pure core: Kafka's `__consumer_offsets` as bytes in, values or errors out."""
