"""``python -m sleepwatch``."""

from sleepwatch.cli import main

if __name__ == "__main__":
    main(prog_name="sleepwatch")
