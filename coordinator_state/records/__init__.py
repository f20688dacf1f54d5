"""Coordinator records: their types as data, the serde, and the values that members send in them.

Also the JSON of Kafka's formatters. Imports `wire`.
"""
