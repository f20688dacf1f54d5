"""Kafka's wire format: primitives, message schemas, struct readers and writers, compression.

Imports only `coordinator_state.errors`.
"""
