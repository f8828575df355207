"""The simulator beside the kernel, over a grid of scenarios: runs `headend compare`, judges and draws the agreement.

`python -m headend.lab run FILE... --out DIR` measures, which takes root and as long as the scenarios last;
`python -m headend.lab report DIR` draws the page again from what was measured. `headend.lab.run` is `headend lab` from
Python.
"""

from headend.lab.comparison import Comparison, ComparisonError, Row
from headend.lab.measure import LabError, run
from headend.lab.page import study

__all__ = ["Comparison", "ComparisonError", "LabError", "Row", "run", "study"]
