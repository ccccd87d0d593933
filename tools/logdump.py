#!/usr/bin/env python3
"""Run the second reader: `python tools/logdump.py URI` is `python tools/logdump URI`."""

from __future__ import annotations

import sys

from logdump import main  # the package beside this file, which Python prefers to a module

if __name__ == "__main__":
    sys.exit(main())
