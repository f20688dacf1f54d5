"""Kafka clients on kafka-python's network layer: connections, leaders, fetches, group requests.

Imports only the core.
"""
