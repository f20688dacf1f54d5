"""The write side as a model: what a group coordinator answers, and what it writes to its log.

A `GroupCoordinator` takes the requests that a broker takes, at times that are told to it, and
appends to a `CoordinatorLog` what a broker appends. It knows the coordinator of Kafka 4 and the one
of Kafka 3 (`doSyncGroup`, `storeGroup`), holds everything in memory and does nothing by itself:
timers fire when it is told that time has passed.
"""
