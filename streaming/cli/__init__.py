"""The command line `coordinator-state`: one file for each command. May import every package."""
