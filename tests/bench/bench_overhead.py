"""What `attend bench` itself costs: its rate, its CPU time per request, and how late it sends.

  bench_overhead.py [--bin build/release/bin] [--seconds 5]

Drives attend-echo-server, which answers every request of (1, 1, 64) with the same bytes, from another core (the first two
that this process may run on), and prints requests/s and microseconds of CPU per request of either side. The bar is 20,000
requests/s, or that the echo's core is the limit. Then an open loop of 1,000/s, whose p99 of being sent late should be below
1 ms. Only of meaning on an idle machine.
"""

import argparse
import json
import os
import subprocess
import sys

CLOCK_HZ = os.sysconf("SC_CLK_TCK")
LEVELS = ((1, 1), (8, 1), (32, 1), (64, 2), (128, 4))  # under way, connections


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_HZ


def bench(binaries, core, address, arguments):
    """The result of one run, as JSON."""
    command = [f"{binaries}/attend", "bench", "--server", address, "--shape", "1x1x64", "--verify-sample", "0", "--json", "-"]
    command += ["--warmup", "500ms"] + arguments
    done = subprocess.run(["taskset", "-c", str(core)] + command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def ms(value, width=0):
    """`value` with three digits; "-" where there were too few answers for it."""
    return f"{'-' if value is None else f'{value:.3f}':>{width}}"


def closed_loops(binaries, cores, address, echo_pid, seconds):
    print(f"{'under way':>9} {'connections':>11} {'requests/s':>10} {'p50 ms':>8} {'p99 ms':>8} {'client us':>9} {'echo us':>8}  busy")
    for concurrency, connections in LEVELS:
        before = cpu_seconds(echo_pid)
        result = bench(binaries, cores[1], address,
                       ["-c", str(concurrency), "--connections", str(connections), "-z", f"{seconds}s"])
        rate = result["requests_per_s"]
        # The echo also answers the warm-up of half a second.
        echo_share = (cpu_seconds(echo_pid) - before) / (seconds + 0.5)
        client_share = result["client_cpu_share"]
        latency = result["latency_ms"]
        print(f"{concurrency:9} {connections:11} {rate:10.0f} {ms(latency['p50'], 8)} {ms(latency['p99'], 8)} "
              f"{1e6 * client_share / rate:9.1f} {1e6 * echo_share / rate:8.1f}  "
              f"client {client_share:.0%}, echo {echo_share:.0%}", flush=True)


def open_loop(binaries, cores, address, seconds):
    result = bench(binaries, cores[1], address, ["--rate", "1000", "-z", f"{seconds}s"])
    lag = result["lag_ms"]
    latency = result["latency_ms"]
    print(f"open loop of 1000/s: sent late p50 {ms(lag['p50'])} ms, p99 {ms(lag['p99'])} ms, max {ms(lag['max'])} ms; "
          f"latency p50 {ms(latency['p50'])} ms, p99 {ms(latency['p99'])} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--seconds", type=float, default=5.0)
    flags = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("two cores are needed, one for each side")
    echo = subprocess.Popen(["taskset", "-c", str(cores[0]), f"{flags.bin}/attend-echo-server"], stdout=subprocess.PIPE, text=True)
    try:
        address = echo.stdout.readline().split()[-1]
        closed_loops(flags.bin, cores, address, echo.pid, flags.seconds)
        open_loop(flags.bin, cores, address, flags.seconds)
    finally:
        echo.kill()
        echo.wait()


if __name__ == "__main__":
    main()
