"""The JVM: Java, and the jars of Kafka and Delta with their locked checksums.

Imports only `streaming.errors`.
"""
