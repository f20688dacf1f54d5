"""The Structured Streaming source `coordinator_log`: record batches as rows."""
