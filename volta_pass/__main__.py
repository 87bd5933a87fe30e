"""``python -m volta_pass`` is the ``volta-pass`` command."""

import sys

from volta_pass.cli import main

sys.exit(main())
