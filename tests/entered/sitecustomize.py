"""Python imports this as it starts, where `run.py entered` has put it on the path: it notes which
functions are entered.

Each is noted once and costs nothing from then on. Notes are written at once, for some processes end
without a word.
"""

import os
import sys

if os.environ.get("IPU_TEACH_ENTERED") and sys.version_info >= (3, 12):
    _package = os.environ["IPU_TEACH_PACKAGE"]
    _notes = os.open(
        os.path.join(os.environ["IPU_TEACH_ENTERED"], str(os.getpid())),
        os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    )

    def _note(code, _):
        if code.co_filename.startswith(_package) and code.co_name != "<module>":
            os.write(_notes, f"{code.co_firstlineno} {code.co_filename}\n".encode())
        return sys.monitoring.DISABLE

    sys.monitoring.use_tool_id(sys.monitoring.PROFILER_ID, "entered")
    sys.monitoring.register_callback(
        sys.monitoring.PROFILER_ID, sys.monitoring.events.PY_START, _note
    )
    sys.monitoring.set_events(sys.monitoring.PROFILER_ID, sys.monitoring.events.PY_START)
