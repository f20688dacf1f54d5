"""The operations on groups, lag, events and transactions: what the HTTP API and agents ask for.

Each operation is a function with its parameters and its answer. This package also has the transport
over HTTP, and the addresses of Burrow's API; that of agents is `streaming.agents`. Imports `http`,
`served` and the packages below them.
"""
