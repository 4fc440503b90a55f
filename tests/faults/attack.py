"""What an attack is made of: a connection that sends any bytes, calls that send any message, and a count of what was sent."""

import dataclasses
import gzip
import pathlib
import select
import socket
import ssl
import struct
import threading
from typing import Callable

import grpc
import hpack

from harness import CHANNEL, PATIENCE_S

SERVICE = "/attention.v1.AttentionService/"
ATTACKER = "127.0.0.2"  # where frames come from: a proxy may tell this address from an honest caller's
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4


@dataclasses.dataclass(frozen=True)
class Attack:
    """`run` is one round of it. It is repeated until an honest caller was answered meanwhile."""
    name: str
    run: Callable
    # For the server that it is tried on; MODELS is the folder that small_models makes.
    flags: tuple = ()
    # Not empty: the server alone exceeds the limits of measure.py; the text names what protects it.
    not_held: str = ""
    # The size of a round's messages uncompressed, which the server may hold; 0 where none is compressed.
    inflated_mib: int = 0
    # Made of frames, which a proxy answers itself: tried through the proxy of deploy/edge as well.
    frames: bool = False


ATTACKS = []


def attack(name, **facts):
    """Adds the function below it to the table, as one round of the attack of this name."""
    def add(run):
        ATTACKS.append(Attack(name=name, run=run, **facts))
        return run
    return add


def first(call):
    """Reads the first answer of a call, or its end, however it ends."""
    try:
        next(call, None)
    except grpc.RpcError:
        pass


def drain(calls):
    """Reads what comes, until the calls end, however they do."""
    for call in calls:
        try:
            for _ in call:
                pass
        except grpc.RpcError:
            pass


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def call_headers(method, *more):
    return [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost"),
            ("content-type", "application/grpc"), ("te", "trailers"), *more]


def headers_of(method, *more):
    """A call's headers, as the first block of a connection has them."""
    return hpack.Encoder().encode(call_headers(method, *more))


class Wire:
    """A connection on which HTTP/2's preface was sent, and nothing else. It keeps none of the protocol's rules."""

    def __init__(self, raw, count):
        self._raw, self._count = raw, count
        self.is_open = True
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def send(self, data):
        """Sends all of it, also when the other side does not read for a while. False: the connection is closed, or the other
        side has not read for 5 s."""
        try:
            self._raw.settimeout(5)
            self._raw.sendall(data)
            self._count(len(data))
        except OSError:
            self.is_open = False
        return self.is_open

    def drop_answers(self):
        """Reads what has come, and forgets it. False: the connection is closed."""
        try:
            while self.is_open and select.select([self._raw], [], [], 0)[0]:
                self._raw.settimeout(0.2)
                self.is_open = bool(self._raw.recv(1 << 20))
        except ssl.SSLWantReadError:
            pass
        except TimeoutError:
            pass
        except OSError:
            self.is_open = False
        return self.is_open

    def close(self):
        self._raw.close()


class Target:
    """What an attack is given: where to send its bytes. It counts them."""

    def __init__(self, address, ca_file=None, server=None):
        self.address, self._ca_file = address, ca_file
        # The process behind it, to ask whether something has happened; no attack needs its help.
        self.server = server
        self.sent = 0
        self._lock = threading.Lock()
        self._open = []
        self._round_is_over = threading.Event()

    def _count(self, size):
        with self._lock:
            self.sent += size

    def connection(self):
        """A bare connection; TLS where the target speaks it. What is sent on it is not counted."""
        for _ in range(10):
            try:
                return self._connect()
            except OSError as error:  # who listens closes a connection that is not ready in time
                reason = error
        raise AssertionError(f"no connection to {self.address}: {reason}")

    def _connect(self):
        host, port = self.address.rsplit(":", 1)
        raw = socket.create_connection((host, int(port)), timeout=PATIENCE_S, source_address=(ATTACKER, 0))
        if self._ca_file is not None:
            context = ssl.create_default_context(cafile=self._ca_file)
            context.set_alpn_protocols(["h2"])
            raw = context.wrap_socket(raw, server_hostname="localhost")
        self._open.append(raw)
        return raw

    def wire(self):
        return Wire(self.connection(), self._count)

    def channel(self):
        """A gRPC channel with a connection of its own."""
        options = [*CHANNEL, ("grpc.enable_retries", 0),
                   ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        if self._ca_file is None:
            channel = grpc.insecure_channel(self.address, options)
        else:
            credentials = grpc.ssl_channel_credentials(pathlib.Path(self._ca_file).read_bytes())
            channel = grpc.secure_channel(self.address, credentials, options)
        self._open.append(channel)
        return channel

    def call(self, channel, method, message, timeout=PATIENCE_S, metadata=(), is_compressed=False):
        """A unary call with these bytes as its message; a future, whose code() waits for the status."""
        self._count(5 + len(gzip.compress(message) if is_compressed else message))
        compression = grpc.Compression.Gzip if is_compressed else None
        return channel.unary_unary(method).future(message, timeout=timeout, metadata=metadata, compression=compression)

    def stream(self, channel, method, messages, timeout=PATIENCE_S, metadata=()):
        """A call that sends these messages, and may get many."""
        def counted():
            for message in messages:
                self._count(5 + len(message))
                yield message
        return channel.stream_stream(method)(counted(), timeout=timeout, metadata=metadata)

    def open_stream(self, channel, method, messages, metadata=()):
        """The same, and it stays open for what is left of the round."""
        def messages_and_silence():
            yield from messages
            self._round_is_over.wait(PATIENCE_S)
        return self.stream(channel, method, messages_and_silence(), metadata=metadata)

    def close(self):
        """Ends whatever the round has left open, and waits for nothing."""
        self._round_is_over.set()
        for one in self._open:
            one.close()
        self._open.clear()
        self._round_is_over = threading.Event()
