"""A step of nbgrader's autograding that runs a notebook as `ipu-teach grade` does.

It takes the place of nbgrader's `Execute`, which runs the tests in the learner's own kernel. There,
a notebook could change its tests or print its own points. The file nbgrader_config.py, which
`ipu-teach assignment` writes, selects this step.
"""

from __future__ import annotations

import atexit
import json
from functools import cache
from typing import Any

from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_output
from traitlets import Float, Integer

from ipu_course.checking.gaps import Notebook
from ipu_course.classroom.assignment import grading_of, tests_of_notebook
from ipu_course.classroom.grading import MEMORY, SECONDS, Grader


class GradeApart(Preprocessor):
    """Runs a notebook in a process with limits, and stores the points in its test cells."""

    seconds = Integer(SECONDS, help="The processor time of a notebook in seconds.").tag(config=True)
    memory = Float(MEMORY, help="The memory limit of a notebook in GB.").tag(config=True)
    enabled = True

    def preprocess(
        self, notebook: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Return the notebook with the points of each test as the output of its cell."""
        content: Notebook = json.loads(json.dumps(notebook))
        tests = tests_of_notebook(content)
        result = _grader(self.seconds, self.memory).grade(content, tests, own_arguments=False)
        names = {test.source: test.name for test in tests}
        for cell in notebook.cells:
            if cell.cell_type != "code":
                continue
            cell.outputs, cell.execution_count = [], None
            name = names.get(cell.source, "")
            if name and grading_of(cell).get("grade"):
                if result.reasons.get(name):
                    text = result.reasons[name] + "\n"
                    cell.outputs.append(new_output("stream", name="stdout", text=text))
                data = {"text/plain": repr(result.points[name])}
                cell.outputs.append(new_output("execute_result", data=data, execution_count=1))
        return notebook, resources


@cache
def _grader(seconds: int, memory: float) -> Grader:
    """Return a grader that all notebooks of this process share, and that ends with it."""
    grader = Grader(seconds, memory)
    atexit.register(grader.__exit__)
    return grader


def instead_of_execute(step: type) -> list[type]:
    """Return nbgrader's autograding steps, with `step` instead of the step that runs cells."""
    from nbgrader.converters import Autograde
    from nbgrader.preprocessors import Execute

    steps = Autograde.autograde_preprocessors.default_args[0]
    return [step if known is Execute else known for known in steps]
