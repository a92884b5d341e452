# SPDX-License-Identifier: GPL-2.0-only
"""`python -m pagehaul`."""

import sys

from pagehaul.cli.main import main

sys.exit(main())
