"""A caller that asks small requests without end, in a process of its own, so that an attack takes no time from its waiting.

    honest_caller.py ADDRESS [CA_FILE]

For each request it prints a line: when it began, when it ended (time.monotonic(), which all processes share) and what it got:
a digest of the answer's bits, or the name of the status. Ends with its standard input.
"""

import hashlib
import pathlib
import select
import sys
import time

import grpc

import harness

PAUSE_S = 0.005


def connect(address, ca_file):
    if ca_file is None:
        return grpc.insecure_channel(address, harness.CHANNEL)
    credentials = grpc.ssl_channel_credentials(pathlib.Path(ca_file).read_bytes())
    return grpc.secure_channel(address, credentials, [*harness.CHANNEL, ("grpc.ssl_target_name_override", "localhost")])


class Caller:
    """Asks the same small request again and again."""

    def __init__(self, channel):
        self._attend = channel.unary_unary(harness.SERVICE + "Attend", harness.pb.AttendRequest.SerializeToString,
                                           harness.pb.AttendResponse.FromString)
        self._message = harness.request(1, 4)

    def ask(self):
        try:
            reply = self._attend(self._message, timeout=harness.PATIENCE_S, metadata=[("attend-tenant", "honest")])
        except grpc.RpcError as error:
            return f"{error.code().name}:{error.details()}".replace(" ", "_")
        return hashlib.sha256(reply.output.data).hexdigest()[:16]


def main():
    caller = Caller(connect(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        start = time.monotonic()
        got = caller.ask()
        print(f"{start} {time.monotonic()} {got}", flush=True)


if __name__ == "__main__":
    main()
