"""The command `zql`: reads arguments, calls a Session, prints, and gives the exit code."""
