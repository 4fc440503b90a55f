"""Requests per second of several Open Inference servers, in turn, so that a machine whose clock drifts is fair to all.

  compare_servers.py NAME=ADDRESS/MODEL ...      e.g. attend=127.0.0.1:8001/demo python=127.0.0.1:9001/demo

Each load runs on each server in each of three rounds, driven by `attend bench --protocol oip` from core 1; pin the servers
to core 0. Prints the medians, their ratio to the last server's, and the p99 of each round.
"""

import json
import statistics
import subprocess
import sys

BENCH = "build/release/bin/attend"
D_MODEL = 512
LOADS = {
    "(1, 16), 4 callers": ["--shape", f"1x16x{D_MODEL}", "-c", "4", "--connections", "4"],
    "(1, 128), 4 callers": ["--shape", f"1x128x{D_MODEL}", "-c", "4", "--connections", "4"],
    "(1, 512), 4 callers": ["--shape", f"1x512x{D_MODEL}", "-c", "4", "--connections", "4"],
    "8 to 512, 64 callers": ["--shape", f"1x1x{D_MODEL}", "--lengths", "uniform:8..512", "-c", "64", "--connections", "8"],
}
ROUNDS = 3


def measure(address, model, load):
    command = ["taskset", "-c", "1", BENCH, "bench", "--server", address, "--protocol", "oip", "--model", model]
    command += ["-z", "4s", "--warmup", "1s", "--verify-sample", "0", "--json", "-"] + load
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    return report["requests_per_s"], report["latency_ms"]["p99"]


def main(servers):
    for name, load in LOADS.items():
        results = {server: [] for server, _, _ in servers}
        for _ in range(ROUNDS):
            for server, address, model in servers:
                results[server].append(measure(address, model, load))
        medians = {server: statistics.median(rate for rate, _ in rounds) for server, rounds in results.items()}
        last = medians[servers[-1][0]]
        print(name)
        for server, rounds in results.items():
            p99 = ", ".join("-" if ms is None else f"{ms:.1f}" for _, ms in rounds)
            print(f"  {server:12} {medians[server]:9.1f} requests/s  {medians[server] / last:5.2f}x  p99 {p99} ms", flush=True)


if __name__ == "__main__":
    parsed = []
    for argument in sys.argv[1:]:
        label, _, place = argument.partition("=")
        where, _, what = place.rpartition("/")
        if not (label and where and what):
            sys.exit(__doc__)
        parsed.append((label, where, what))
    if not parsed:
        sys.exit(__doc__)
    main(parsed)
