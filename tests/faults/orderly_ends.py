"""Servers end in order, one after the other, under callers without a retry policy: no call may be lost.

    orderly_ends.py [ENDS]

Two servers take the calls in turn. ENDS times (20 unless told) one of them gets SIGTERM, ends within its drain delay, and is
started again at the same address once the callers' connections to it have closed by their age. Prints how many calls were made,
and exits 1 if one failed. `server/README.md` says why nothing is lost (Draining).
"""

import itertools
import os
import re
import sys
import threading
import urllib.request

import grpc

import harness

CALLERS = 4
PAUSE_S = 0.02  # of a caller between two calls, which makes some 150 calls a second
# The drain delay only bounds a server whose connections stay, and no connection may: a server that has ended in time had none.
FLAGS = ("--max-connection-age=1s", "--drain-delay=10m", "--threads=1", "--metrics-listen=127.0.0.1:0")
# gRPC's own defaults, so no call is made again once its bytes were sent. The minimum of the pause is also the time that connecting
# may take: on a busy machine an attempt of 0.1 s fails, and calls with it while the other server starts.
CHANNEL = [("grpc.lb_policy_name", "round_robin"), ("grpc.use_local_subchannel_pool", 1),
           ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 1000 * harness.PATIENCE_S),
           ("grpc.max_reconnect_backoff_ms", 500)]


def start(address="127.0.0.1:0"):
    server = harness.Server(*FLAGS, address=address)
    server.channel.close()  # it would keep a connection open
    return server


def connections(server):
    """How many connections the server has open, by its own metrics."""
    # The line follows the one that harness.Server has read.
    if not hasattr(server, "metrics"):
        server.metrics = next(line.split()[-1] for line in server.process.stdout if line.startswith("attend-server metrics on "))
    text = urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=harness.PATIENCE_S).read().decode()
    return int(re.search(r"^attend_connections (\d+)", text, re.MULTILINE).group(1))


class Callers:
    """Threads that call without end, over one channel."""

    def __init__(self, addresses):
        self._channel = grpc.insecure_channel("ipv4:" + ",".join(addresses), CHANNEL)
        self._attend = self._channel.unary_unary(
            harness.SERVICE + "Attend", harness.pb.AttendRequest.SerializeToString, harness.pb.AttendResponse.FromString)
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.calls, self.failures = 0, []
        self._threads = [threading.Thread(target=self._run) for _ in range(CALLERS)]
        grpc.channel_ready_future(self._channel).result(harness.PATIENCE_S)
        for thread in self._threads:
            thread.start()

    def _run(self):
        message = harness.request(1, 4)
        while not self._over.wait(PAUSE_S):
            failure = None
            try:
                self._attend(message, timeout=harness.PATIENCE_S)
            except grpc.RpcError as error:
                failure = f"{error.code().name}: {error.details()}"
            with self._lock:
                self.calls += 1
                self.failures += [failure] if failure else []

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._channel.close()


def main():
    ends = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    servers = [start(), start()]
    addresses = [server.address for server in servers]
    callers = Callers(addresses)
    try:
        for which in itertools.islice(itertools.cycle(range(len(servers))), ends):
            for server in servers:
                harness.eventually("both servers are called", lambda server=server: connections(server) > 0)
            status = servers[which].stop()
            assert status == 0, f"the server ended with {status}: {servers[which].log()}"
            servers[which].__exit__()
            servers[which] = start(addresses[which])
    finally:
        callers.end()
        for server in servers:
            server.__exit__()
    print(f"{ends} ends of servers, {callers.calls} calls without a retry policy, {len(callers.failures)} lost")
    for failure in sorted(set(callers.failures)):
        print(f"  {callers.failures.count(failure)}x {failure}")
    sys.stdout.flush()
    os._exit(1 if callers.failures else 0)  # Debian 13's gRPC may crash while the interpreter ends


if __name__ == "__main__":
    main()
