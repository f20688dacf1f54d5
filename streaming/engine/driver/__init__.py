"""The engine `driver`: plans micro-batches in the driver process and writes them with delta-rs."""
