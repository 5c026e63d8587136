"""`python3 run.py bench`, or `python bench` from any folder."""

import sys
from pathlib import Path

# the folder from which `bench` can be imported
sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
