"""Coordinator records: their types, their serde, and the member bytes inside them.

Also converts them to the JSON of Kafka's formatters. Imports only `wire` and `errors`.
"""
