"""`python -m stead` is the command line."""

from stead.cli import main

if __name__ == "__main__":
    main()
