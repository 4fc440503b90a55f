"""What becomes of clients when their process ends, and in a child that fork() made."""

import os
import pathlib
import signal
import subprocess
import sys
import unittest
from unittest import mock

import attend
from attend import _process
from support import TIMEOUT, ServedTest


class ExitTest(ServedTest):
    PROGRAM = """
import sys
import attend

client = attend.Client(sys.argv[1])
for _ in range(2):
    with client.session(model="demo") as session:
        session.step(token_ids=[1])
try:
    attend.Client("no address")
except ValueError as error:
    unmade = error  # which has the client that was not made
open_session = client.session(model="demo")
stream = client.attend_stream(token_ids=[1, 2], model="demo")
"""

    def test_a_program_that_closes_nothing_ends(self):
        environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(attend.__file__).parents[1])}
        for _ in range(3):
            result = subprocess.run(
                [sys.executable, "-c", self.PROGRAM, self.server.address], capture_output=True, timeout=TIMEOUT, env=environment
            )
            self.assertEqual((result.returncode, b"Traceback" in result.stderr), (0, False), result.stderr)


class ForkTest(ServedTest):
    """In processes of their own, since gRPC's handlers of fork() may hang where a server runs beside. Debian 13's do so in every
    process that has made a call, which then ends with SIGALRM."""

    def run_forking(self, program, **variables):
        environment = {**os.environ, **variables, "PYTHONPATH": str(pathlib.Path(attend.__file__).parents[1])}
        result = subprocess.run(
            [sys.executable, "-c", program, self.server.address], capture_output=True, text=True, timeout=TIMEOUT, env=environment
        )
        if result.returncode == -signal.SIGALRM:
            self.skipTest("gRPC hangs in fork()")
        return result

    CHILD = """
import gc, os, signal, sys
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
signal.alarm(60)
child = os.fork()
signal.alarm(0)
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
        result = self.run_forking(self.CHILD, GRPC_ENABLE_FORK_SUPPORT="false")
        words = "FailedPrecondition the {} was made in another process: make one after the fork"
        child = [words.format(what) for what in ("client", "client", "client", "stream", "session", "session")]
        child.append(
            "FailedPrecondition a call, a session or a stream was under way when fork() made this process, and gRPC cannot be used in "
            "it: fork before, or start the process with spawn"
        )
        self.assertEqual(result.stdout.splitlines(), [*child, "1", "None", "(30000, 4, 64)", "True"], result.stderr)

    CALLER = """
import os, signal, socket, sys, threading, time
import attend

def show(act):
    try:
        print(act())
    except attend.AttendError as error:
        print(type(error).__name__, error.message.split(":")[0])
    sys.stdout.flush()

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()  # and never answers
address = "127.0.0.1:%d" % listener.getsockname()[1]
client = attend.Client(address, timeout=3600)
caller = threading.Thread(target=show, args=(client.list_models,))
caller.start()
while not client._maker.calls:
    time.sleep(0.001)
signal.alarm(60)
child = os.fork()
signal.alarm(0)
if child == 0:
    show(lambda: attend.Client(address))
    os._exit(0)
os.waitpid(child, 0)
client.close()
caller.join()
print(len(client._maker.calls))
"""

    def test_a_child_has_no_client_when_a_call_was_under_way(self):
        result = self.run_forking(self.CALLER)
        refused = "FailedPrecondition a call, a session or a stream was under way when fork() made this process, and gRPC cannot be used in it"
        self.assertEqual(result.stdout.splitlines()[0], refused, result.stderr)
        self.assertRegex(result.stdout.splitlines()[1], "^Cancelled ", result.stderr)
        self.assertEqual(result.stdout.splitlines()[2], "0", result.stderr)

    def test_a_fork_while_a_client_is_being_made_does_not_hide_the_calls_of_others(self):
        class Owned:
            pass

        unmade, made = Owned(), Owned()
        made._maker = _process.Maker(made, "client")
        made._maker.calls.add(made)
        with mock.patch.multiple(_process, _owned=[unmade, made], _has_copied_calls=False):
            _process._become_child()
            with self.assertRaises(attend.FailedPrecondition):
                _process.check_process()


if __name__ == "__main__":
    unittest.main()
