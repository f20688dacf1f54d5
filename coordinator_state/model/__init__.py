"""A model of the write side: coordinators and their groups, and the logs that they write.

A `Group` has its clients: members start, crash, leave and commit. It appends the records of Kafka
to the log of its `GroupCoordinator`, which holds the committed offsets that result. The model keeps
everything in memory and has no threads and no clock: the caller sets the time. It imports `replay`
and the packages below it.
"""
