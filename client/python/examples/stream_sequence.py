"""Streams attention over a long sequence: each block of rows is used when it arrives, and none is kept."""

import argparse

import attend
import numpy as np

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--length", type=int, default=4096)
parser.add_argument("--server", default="127.0.0.1:8001")
arguments = parser.parse_args()

rows = np.random.default_rng(0).standard_normal((arguments.length, 512), dtype=np.float32)
with attend.Client(arguments.server) as client:
    with client.attend_stream(rows, model="demo", causal=True, assemble=False) as stream:
        for block in stream:
            last = block.first_row + len(block.rows) - 1
            print(f"rows {block.first_row} to {last}, mean {block.rows.mean():+.4f}")
        assert stream.summary is not None
        print(f"{last + 1} rows, computed in {stream.summary.compute_ns / 1e6:.1f} ms")
