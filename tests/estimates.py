"""Compare estimates with built graphs: python tests/estimates.py [--count N] [--seed S]

Without options, the command prints the ratio of the estimated to the modelled cycles of ten
networks on 1,472 tiles; this takes several minutes and needs torch. With `--count`, it does the
same for that many random networks on 64 tiles. docs/estimate.md contains the results.
"""

from __future__ import annotations

from ipu_teach.device import Device
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir
from ipu_teach.poplibs.options import Options
from ipu_teach.report import Report
from validation.programs import profile


def built_report(step: Ir, device: Device, options: Options | None = None) -> Report:
    """Return the report of a step that is built for `device`, as if it had run once."""
    low = ir.Lowering(step, device, 1, options)
    return profile(low.whole, low.program)


def built_cycles(step: Ir, device: Device, options: Options | None = None) -> int:
    """Return the modelled cycles of a step that is built for `device`."""
    return int(built_report(step, device, options).total_cycles)
