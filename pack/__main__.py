"""`python3 run.py pack`, or `python pack` from any folder."""

import sys
from pathlib import Path

# Python imports `pack` from this folder.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from pack import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
