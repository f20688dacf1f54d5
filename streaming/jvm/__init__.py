"""The JVM: finding Java, and fetching the jars of Kafka and Delta with locked checksums.

Imports only `streaming.errors`.
"""
