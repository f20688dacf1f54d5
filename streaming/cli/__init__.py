"""The command line `coordinator-state`, one file per command. May import every package."""
