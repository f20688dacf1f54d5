"""Samples of the logs of user topics, and what they say of the groups that read them."""
