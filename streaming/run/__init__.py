"""Parts of `run` beside its query: finding its topic, and the errors of Spark by their cause."""
