"""`python -m headend.evaluate`, which `headend evaluate` starts."""

import sys

from headend.evaluate.cli import main

sys.exit(main())
