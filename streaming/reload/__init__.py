"""Loading log partitions again: why, how it is asked for, and how it begins."""
