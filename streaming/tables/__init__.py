"""The Delta tables: their columns, their folder, and writing and reading them with delta-rs."""
