"""Kafka on one machine: the embedded broker, the demo, and simulated logs.

Imports `run` and the packages below it.
"""
