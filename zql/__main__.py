"""`zql`, and `python -m zql`."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until the program listens itself: it has begun nothing, and ends without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from zql.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
