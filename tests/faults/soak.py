#!/usr/bin/python3
"""Mixed load for a long time, the server's memory beside it; exit code 1 when memory grows.

    ATTEND_SOURCE=. ATTEND_SERVER_BINARY=build/release/bin/attend-server ATTEND_BINARY=build/release/bin/attend \\
        /usr/bin/python3 tests/faults/soak.py --duration 3600

Load: lengths from 1 to 512 in an open loop, sessions, streams that are cancelled, requests that are refused. The first third
is for warming up (pools, arenas, gRPC's own buffers); after it, the median of the last third may exceed the median of the
second by --growth percent and 8 MiB.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import threading
import time

import grpc

from harness import SERVICE, Server, pb, request, stream

CLIENT = os.environ["ATTEND_BINARY"]


def loads(server, seconds):
    """The commands that run side by side."""
    common = [CLIENT, "bench", f"--server={server.address}", f"--duration={seconds}s", "--warmup=0s", "--json=-"]
    return [
        [*common, "--shape=1x1x512", "--lengths=zipf:1.1:1..512", "--rate=40", "--arrivals=poisson", "--verify-sample=1"],
        [*common, "--decode", "--model=demo", "-c", "4", "--prefill=32", "--steps=16", "--causal"],
    ]


def misbehave(server, until):
    """Cancelled streams and refused requests, a few each second."""
    channel = server.connect()
    refused = channel.unary_unary(
        SERVICE + "Attend", pb.AttendRequest.SerializeToString, pb.AttendResponse.FromString)
    for turn in itertools.count():
        if time.monotonic() >= until:
            break
        blocks = stream(channel, request(1, 256, causal=True), timeout=30)
        time.sleep(0.05)
        blocks.cancel()
        try:
            refused(pb.AttendRequest(model=f"nothing-{turn}"), timeout=10)
        except grpc.RpcError:
            pass
        time.sleep(0.2)
    channel.close()


def watch(server, seconds, interval):
    """Samples of (time, resident MiB, open files), printed as they are taken."""
    samples, start = [], time.monotonic()
    print(f"{'s':>8} {'MiB':>8} {'files':>6} {'answered':>10}")
    while time.monotonic() < start + seconds:
        time.sleep(interval)
        now = time.monotonic() - start
        samples.append((now, server.resident_mib(), server.open_files()))
        print(f"{now:8.0f} {samples[-1][1]:8.1f} {samples[-1][2]:6d} {server.statistics().succeeded:10d}", flush=True)
    return samples


def has_grown(samples, percent):
    third = len(samples) // 3
    before, after = (statistics.median(mib for _, mib, _ in part) for part in (samples[third:2 * third], samples[2 * third:]))
    print(f"median of the second third {before:.1f} MiB, of the last {after:.1f} MiB")
    return after > before * (1 + percent / 100) + 8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration", type=float, default=600, help="seconds (default %(default)s)")
    parser.add_argument("--interval", type=float, help="seconds between samples (default: 60 samples)")
    parser.add_argument("--growth", type=float, default=3, help="percent that may be added (default %(default)s)")
    options = parser.parse_args()
    interval = options.interval or max(0.5, options.duration / 60)
    with Server() as server:
        children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                    for command in loads(server, options.duration)]
        rogue = threading.Thread(target=misbehave, args=(server, time.monotonic() + options.duration))
        rogue.start()
        samples = watch(server, options.duration, interval)
        rogue.join()
        failed = [child.args for child in children if child.communicate(timeout=120) and child.returncode != 0]
        for command in failed:
            print("failed:", " ".join(command))
        grown = has_grown(samples, options.growth)
        ended = server.stop()
    print("memory grew" if grown else "memory stayed", f"; the server ended with {ended}", sep="")
    return 1 if grown or failed or ended != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
