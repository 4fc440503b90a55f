"""What a child that fork() made may do with its parent's clients."""

import os
import pathlib
import subprocess
import sys
import unittest

import attend
from support import TIMEOUT, ServedTest


class ForkTest(ServedTest):
    """In processes of their own, since gRPC's handlers of fork() may hang where a server runs beside."""

    CHILD = """
import gc, os, sys
import attend
import numpy as np

def show(act):
    try:
        print(act())
    except attend.AttendError as error:
        print(type(error).__name__, error.message)
    sys.stdout.flush()

client = attend.Client(sys.argv[1], timeout=20)
rows = np.ones((30000, 4, 64), np.float32)  # more than fits on its way
stream = client.attend_stream(query=rows, key=rows[:4], value=rows[:4])
next(stream)
session = client.session(heads={"num_heads": 1, "head_dim": 1})
sharded = attend.ShardedSession([(client, None)], {"num_heads": 1, "head_dim": 1})
one = np.ones((1, 1, 1), np.float32)
sharded.append(one, one)
child = os.fork()
if child == 0:
    show(client.list_models)
    show(lambda: client.attend_stream(token_ids=[1], model="demo"))
    show(lambda: client.session(model="demo"))
    show(lambda: next(stream))
    show(lambda: session.step(query=one, key=one, value=one))
    show(lambda: sharded.append(one, one))
    show(lambda: attend.Client(sys.argv[1]))
    for each in (stream.cancel, session.cancel, session.close, sharded.close, client.close):
        each()
    del client, stream, session, sharded, each
    gc.collect()
    sys.exit()  # as of a child that does not know better
os.waitpid(child, 0)
show(lambda: session.step(query=one, key=one, value=one).length)
show(lambda: sharded.append(one, one))
show(lambda: stream.result().output.shape)
show(lambda: len(client.list_models()) > 0)
"""

    def test_a_child_neither_uses_nor_ends_what_its_parent_made(self):
        environment = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "false", "PYTHONPATH": str(pathlib.Path(attend.__file__).parents[1])}
        result = subprocess.run(
            [sys.executable, "-c", self.CHILD, self.server.address], capture_output=True, text=True, timeout=TIMEOUT, env=environment
        )
        words = "FailedPrecondition the {} was made in another process: make one after the fork"
        child = [words.format(what) for what in ("client", "client", "client", "stream", "session", "session")]
        child.append(
            "FailedPrecondition a session or a stream was open when fork() made this process, and gRPC cannot be used in it: "
            "fork before opening one, or start the process with spawn"
        )
        self.assertEqual(result.stdout.splitlines(), [*child, "1", "None", "(30000, 4, 64)", "True"], result.stderr)


if __name__ == "__main__":
    unittest.main()
