"""Start `ipu-teach`, the command line of the course, by `python -m ipu_teach`."""

import sys

from ipu_course.cli import main

if __name__ == "__main__":
    sys.exit(main())
