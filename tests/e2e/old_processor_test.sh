#!/usr/bin/env bash
# old_processor_test.sh QEMU PROGRAM...: on the newest processor that QEMU emulates without SSE4.2, each program ends with an error
# that names what is missing; on the oldest one with it, it runs.
set -euo pipefail
qemu=$1
for program in "${@:2}"; do
  status=0
  said=$("$qemu" -cpu Penryn "$program" --version 2>&1) || status=$?
  if [[ "$status: $said" != "1: "*"processor is not supported"*SSE4.2* ]]; then
    echo "$program on a processor without SSE4.2: expected status 1 and an error, found $status: $said" >&2
    exit 1
  fi
  "$qemu" -cpu Nehalem "$program" --version
done
