"""Comparisons with what else reads `__consumer_offsets`; `python -m bench`, see README.md."""
