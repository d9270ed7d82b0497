"""`python -m pivotal` is the command `pivotal`."""

from pivotal.cli.main import main

if __name__ == "__main__":
    main()
