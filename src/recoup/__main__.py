"""`python -m recoup`: the command line, where its script is not on the path."""

from recoup.cli.app import main

if __name__ == "__main__":
    main()
