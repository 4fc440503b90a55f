# shellcheck shell=bash
# Sourced. server_address LOG PID: waits until the server of process PID listens, and prints its address, which it writes to LOG.
# Fails with the text of LOG when the server ends before, or does not listen within 5 minutes.
server_address() {
  local tries address
  for ((tries = 0; tries < 3000; tries++)); do
    address=$(sed -n 's/^attend-server listening on //p' "$1" 2>/dev/null) || true
    if [ -n "$address" ]; then
      echo "$address"
      return
    fi
    kill -0 "$2" 2>/dev/null || break
    sleep 0.1
  done
  echo "the server did not start: $(cat "$1")" >&2
  return 1
}
