"""A model of the write side: a group coordinator that answers requests and writes its log.

A `GroupCoordinator` takes the same requests as a broker and appends the same records to a
`CoordinatorLog`. It models the coordinators of Kafka 4 and of Kafka 3 (`doSyncGroup`,
`storeGroup`). It keeps everything in memory and has no threads: the caller advances the time, and
timers fire then. It imports `replay` and the packages below it.
"""
