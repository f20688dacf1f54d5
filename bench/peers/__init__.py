"""`python -m bench.peers`: this program beside other tools, on the same log of real clients."""
