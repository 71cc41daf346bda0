"""`python -m zql`."""

from zql.cli import main

if __name__ == "__main__":
    main()
