#!/usr/bin/env bash
# overload.sh SHAPE [SECONDS [DEADLINE]]: what a server keeps when it is offered five times what it can do, by callers that wait for
# DEADLINE (30s). Server on core 0, client on core 1: first the peak (closed loop), then the open loop; prints goodput, latency of
# what was accepted, how soon refusals came by the client's clock and by the server's own (--log-requests), and the server's memory
# meanwhile.
#   tests/bench/overload.sh 1x512x512 60 200ms
set -euo pipefail
if [[ ${1:--} = -* ]]; then
  sed -n '2,/^[^#]/s/^# \?//p' "$0" >&2
  exit 2
fi
shape=$1 seconds=${2:-60} deadline=${3:-30s}
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
bin=$here/../../build/release/bin
# shellcheck source=tests/support/server_address.sh
. "$here/../support/server_address.sh"
folder=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT

taskset -c 0 "$bin/attend-server" --listen=127.0.0.1:0 --admin-listen=none --metrics-listen=none --threads=1 \
  >"$folder/out" 2>"$folder/log" &
server=$!
address=$(server_address "$folder/out" "$server")
bench=(taskset -c 1 "$bin/attend" bench "--server=$address" "--shape=$shape" --json=-)
peak=$("${bench[@]}" -c 4 --connections=4 -z 4s 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["requests_per_s"])')

(while kill -0 "$server" 2>/dev/null; do
  awk '/VmRSS/ { print int($2 / 1024) }' "/proc/$server/status" 2>/dev/null || true
  sleep 1
done) >"$folder/memory" &
"${bench[@]}" --rate="$(python3 -c "print($peak * 5)")" "--timeout=$deadline" --connections=4 -z "${seconds}s" --verify-sample=0 >"$folder/report" 2>/dev/null || true
kill "$server"
wait "$server" 2>/dev/null || true
server=

python3 - "$folder" "$peak" <<'END'
import json, re, statistics, sys
folder, peak = sys.argv[1], float(sys.argv[2])
report = json.load(open(f"{folder}/report"))
memory = [int(line) for line in open(f"{folder}/memory")]
own = [float(ms) for line in open(f"{folder}/log") if "RESOURCE_EXHAUSTED" in line
       for ms in re.findall(r"total_ms=([0-9.]+)", line)]
print(f"peak      {peak:.1f} requests/s; offered five times that")
print(f"goodput   {report['goodput_per_s']:.1f} /s = {report['goodput_per_s'] / peak:.0%} of the peak")

def ms(value, digits):
    return "(too few)" if value is None else f"{value:.{digits}f} ms"

print(f"accepted  p99 {ms(report['latency_ms']['p99'], 0)}")
for code, number in report["errors"].items():
    print(f"refused   {number} with {code}, after {ms(report['error_latency_ms'].get(code, {}).get('p50'), 2)} (median, from when it was due)")
if own:
    print(f"refused   by the server's clock: median {statistics.median(own):.3f} ms, largest {max(own):.3f} ms, of {len(own)} in the log")
print(f"memory    {min(memory)} to {max(memory)} MiB")
END
