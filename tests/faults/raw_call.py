"""A call over a bare HTTP/2 connection, which does what no gRPC library does."""

import contextlib
import struct

import h2.config
import h2.connection
import h2.events
import h2.settings

from harness import PATIENCE_S, SERVICE


def raw_call(server, body, end_stream=True, declared=None, headers=(), window=None, receive_bytes=None):
    """A call of Attend over a bare HTTP/2 connection; `declared` lies about the message's length, `window` is what the server may
    send before the client reads, of which the client's system takes some `receive_bytes`. (socket, connection)."""
    wire = server.socket(receive_bytes)
    http = h2.connection.H2Connection(config=h2.config.H2Configuration(header_encoding="utf-8"))
    http.initiate_connection()
    if window is not None:
        http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        http.increment_flow_control_window(window)
    http.send_headers(1, [
        (":method", "POST"), (":scheme", "http"), (":path", SERVICE + "Attend"), (":authority", "localhost"),
        ("content-type", "application/grpc"), ("te", "trailers"), *headers])
    prefix = struct.pack(">BI", 0, len(body) if declared is None else declared)
    message = prefix + body
    for start in range(0, len(message), http.max_outbound_frame_size):
        http.send_data(1, message[start:start + http.max_outbound_frame_size])
    if end_stream:
        http.end_stream(1)
    wire.sendall(http.data_to_send())
    return wire, http


def grpc_status(wire, http, seconds=PATIENCE_S):
    """The grpc-status the server ends stream 1 with, 'reset' when it resets it, 'closed' when it closes the connection."""
    wire.settimeout(seconds)
    while True:
        data = wire.recv(65536)
        if not data:
            return "closed"
        for event in http.receive_data(data):
            if isinstance(event, (h2.events.TrailersReceived, h2.events.ResponseReceived)):
                status = dict(event.headers).get("grpc-status")
                if status is not None:
                    return int(status)
            if isinstance(event, h2.events.StreamReset):
                return "reset"
            if isinstance(event, h2.events.ConnectionTerminated):
                return "closed"
        wire.sendall(http.data_to_send())


def read_answer(wire, http, seconds=PATIENCE_S):
    """Reads the answer of stream 1, and tells the server so after each piece, as clients do. (its bytes, its grpc-status). When the
    server has ended, what had arrived before can still be read."""
    wire.settimeout(seconds)
    size = 0
    while True:
        data = wire.recv(65536)
        if not data:
            return size, "closed"
        for event in http.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                size += len(event.data)
                http.increment_flow_control_window(len(event.data))
            if isinstance(event, h2.events.TrailersReceived):
                return size, int(dict(event.headers)["grpc-status"])
        with contextlib.suppress(OSError):
            wire.sendall(http.data_to_send())
