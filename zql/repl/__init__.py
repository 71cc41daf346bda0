"""The interactive shell: what is typed, dot commands, completion, and the loop around them."""
