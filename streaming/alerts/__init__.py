"""Alerts: rules in YAML over the tables, and notices to webhooks, mail and other sinks.

Imports `views` and the packages below it.
"""
