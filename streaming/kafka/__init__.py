"""Connections, leaders, fetches and group requests, on kafka-python's network layer."""
