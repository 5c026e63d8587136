"""`python3 run.py pack`, or `python pack` from any folder."""

import sys
from pathlib import Path

# the folder from which `pack` can be imported
sys.path[0] = str(Path(__file__).resolve().parents[1])

from pack import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
