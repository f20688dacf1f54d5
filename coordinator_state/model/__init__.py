"""The write side as a model: a group coordinator that answers requests and writes its log.

A `GroupCoordinator` takes the requests that a broker takes, at given times, and appends to a
`CoordinatorLog` the records that a broker appends. It models the coordinator of Kafka 4 and the one
of Kafka 3 (`doSyncGroup`, `storeGroup`), holds everything in memory and has no thread: its timers
fire when its caller says that time has passed. Imports every package but `apply`.
"""
