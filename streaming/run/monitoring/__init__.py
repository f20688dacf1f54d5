"""HTTP endpoints of a `run`: metrics, health and readiness."""
