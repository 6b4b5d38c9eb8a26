#!/usr/bin/env python3
"""exits.py CODE COMMAND...: runs the command; fine when it exits with that very code."""
import subprocess
import sys

code, command = int(sys.argv[1]), sys.argv[2:]
actual = subprocess.run(command, check=False).returncode
if actual != code:
    sys.exit(f"exit code {actual} instead of {code}: {' '.join(command)}")
