"""`python3 run.py bench`, or `python bench` from any folder."""

import sys
from pathlib import Path

# Python imports `bench` from this folder.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
