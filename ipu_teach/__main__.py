"""`python -m ipu_teach` is `ipu-teach`."""

import sys

from ipu_teach.cli import main

if __name__ == "__main__":
    sys.exit(main())
