"""Consumers that keep their offsets outside Kafka: which ones, and their offsets.

Imports `tables` and the packages below it.
"""
