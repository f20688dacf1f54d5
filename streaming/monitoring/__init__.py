"""What `run` tells of itself over HTTP: metrics, health and readiness."""
