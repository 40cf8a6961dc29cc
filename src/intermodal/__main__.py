"""The command line as ``python -m intermodal``."""

from intermodal.cli import main

if __name__ == "__main__":
    main()
