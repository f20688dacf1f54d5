"""What the tables say, as metrics for Prometheus."""
