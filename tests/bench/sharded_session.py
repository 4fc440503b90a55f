#!/usr/bin/env python3
"""Times ShardedSession over several servers against one server that holds all keys, on this machine.

sharded_session.py SITE SERVER [--tokens N] [--shards N] [--page-tokens N] [--cache-dtype D] [--steps N] [--cpp PROGRAM]: SITE is
a folder with the Python client, as tests/client/python/run.py installs it; SERVER is attend-server. All servers run beside each
other, each with --threads; medians over --steps single tokens. PROGRAM is attend-sharded-bench, which then does the same with
the C++ client and an FP32 cache.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../client/python"))
HEADS = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 64}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site")
    parser.add_argument("server")
    parser.add_argument("--tokens", type=int, default=256 * 1024)
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--page-tokens", type=int, default=2048)
    parser.add_argument("--cache-dtype", default="fp32")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpp")
    flags = parser.parse_args()
    sys.path.insert(0, flags.site)
    os.environ["ATTEND_SERVER"] = flags.server
    run(flags)


def run(flags: argparse.Namespace) -> None:
    import attend
    import numpy as np
    from support import Server, relative_error, seeded

    servers = [Server(f"--threads={flags.threads}", f"--max-cache-bytes={4 << 30}") for _ in range(flags.shards + 1)]
    clients = [attend.Client(server.address, timeout=300) for server in servers]
    print(f"{flags.tokens} tokens, {HEADS}, {flags.cache_dtype} cache, pages of {flags.page_tokens}, --threads={flags.threads}")
    try:
        pages = -(-flags.tokens // flags.page_tokens)
        share = -(-pages // flags.shards) * flags.page_tokens
        sharded = attend.ShardedSession(
            [(client, share) for client in clients[1:-1]] + [(clients[-1], None)],
            HEADS, page_tokens=flags.page_tokens, cache_dtype=flags.cache_dtype, timeout=300,
        )  # fmt: skip
        with clients[0].session(heads=HEADS, cache_dtype=flags.cache_dtype, return_log_sum_exp=True, timeout=300) as one:
            no_query = np.empty((0, 8, 64), np.float32)
            for first in range(0, flags.tokens, 16384):
                rows = min(16384, flags.tokens - first)
                key, value = seeded(rows, 2, 64, seed=first), seeded(rows, 2, 64, seed=first + 1)
                one.step(query=no_query, key=key, value=value, query_offsets=[0])
                sharded.append(key, value)
            caches = [client.get_statistics().cache_bytes for client in clients]
            print("cache bytes: one", caches[0], "shards", *caches[1:], "largest share %.3f" % (max(caches[1:]) / caches[0]))
            times = {"one": [], "sharded": []}
            errors = []
            for step in range(flags.steps):
                q, k, v = (seeded(1, heads, 64, seed=-1 - 3 * step - i & 0xFFFF) for i, heads in enumerate((8, 2, 2)))
                start = time.perf_counter()
                whole = one.step(query=q, key=k, value=v)
                middle = time.perf_counter()
                result = sharded.step(q, k, v)
                times["sharded"].append(time.perf_counter() - middle)
                times["one"].append(middle - start)
                errors.append(relative_error(result.output, whole.output))
            for name, values in times.items():
                print(f"{name}: {1e3 * statistics.median(values):.2f} ms a token ({1e3 * min(values):.2f} to {1e3 * max(values):.2f})")
            print(f"largest relative error: {max(errors):.2g}")
        sharded.close()
        if flags.cpp:
            print("with the C++ client:", flush=True)
            run_cpp(flags, [server.address for server in servers])
    finally:
        for client in clients:
            client.close()
        for server in servers:
            server.stop()


def run_cpp(flags: argparse.Namespace, addresses: list[str]) -> None:
    numbers = [f"--{name}={value}" for name, value in
               (("tokens", flags.tokens), ("page-tokens", flags.page_tokens), ("steps", flags.steps))]
    subprocess.run([flags.cpp, "--one", addresses[0], "--shards", ",".join(addresses[1:]), *numbers], check=True)


if __name__ == "__main__":
    main()
