"""The rows of docs/poplibs.md, with a module for each library.

docs/make_poplar_table.py writes the page.
"""

from poplibs_rows.gcl import GCL
from poplibs_rows.poplin import POPLIN
from poplibs_rows.popnn import POPNN
from poplibs_rows.popops import POPOPS
from poplibs_rows.poprand import POPRAND
from poplibs_rows.popsparse import POPSPARSE
from poplibs_rows.poputil import POPUTIL

LIBRARIES = {
    "poputil": POPUTIL,
    **POPOPS,
    "poplin": POPLIN,
    "popnn": POPNN,
    "poprand": POPRAND,
    "popsparse": POPSPARSE,
    "gcl": GCL,
}
