"""`python -m zql`."""

from zql.cli.main import main

if __name__ == "__main__":
    main()
