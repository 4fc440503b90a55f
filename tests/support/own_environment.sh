#!/usr/bin/env bash
# own_environment.sh PROGRAM ARGUMENT...: runs a test without the caller's variables ATTEND_…, which our programs would read.
set -euo pipefail
unset "${!ATTEND_@}"
exec "$@"
