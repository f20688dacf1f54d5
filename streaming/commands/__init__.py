"""The commands of `coordinator-state`, one file each; the heavy imports wait until one runs."""
