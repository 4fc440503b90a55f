"""Hostile messages and streams: more elements than anybody needs, and calls that stay open."""

import struct

from attack import DATA, END_HEADERS, HEADERS, SERVICE, attack, first, frame, headers_of
from harness import pb

REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
WATCH = "/grpc.health.v1.Health/Watch"
INFER = "/inference.GRPCInferenceService/ModelInfer"


@attack("32 million empty inputs")
def empty_inputs(target):
    target.call(target.channel(), INFER, b"\x2a\x00" * (32 << 20)).code()


@attack("8 million empty texts")
def empty_texts(target):
    # A field 6 of 2^24 bytes: texts of none.
    target.call(target.channel(), SERVICE + "Attend", b"\x32\x80\x80\x80\x08" + b"\x0a\x00" * (8 << 20)).code()


def long_field(number, body):
    """A field of these bytes, whose length is written with five."""
    length = bytes(len(body) >> shift & 0x7f | (0x80 if shift < 28 else 0) for shift in range(0, 35, 7))
    return bytes([number << 3 | 2]) + length + body


def compressed(target, message):
    """An Attend of this message, which is nothing once it is compressed."""
    target.call(target.channel(), SERVICE + "Attend", message, is_compressed=True).code()


@attack("32 million payloads of one tensor, compressed", inflated_mib=64)
def replaced_payloads(target):
    compressed(target, long_field(2, long_field(1, b"\x1a\x00" * (32 << 20))))


@attack("lists of 48 million integers, compressed", inflated_mib=48)
def long_lists(target):
    numbers = b"\x01" * (1 << 23)
    shapes = b"".join(long_field(field, long_field(2, numbers)) for field in (1, 3, 5))
    compressed(target, long_field(2, shapes + long_field(2, numbers) + long_field(4, numbers)) + long_field(10, long_field(1, numbers)))


def calls_that_stay(target, method, message, calls):
    """So many calls on one connection that have sent one message, or None, and do not end."""
    wire, block = target.wire(), headers_of(method)
    body = None if message is None else struct.pack(">BI", 0, len(message)) + message
    for stream in range(1, 2 * calls, 2):
        data = b"" if body is None else frame(DATA, 0, stream, body)
        if not wire.send(frame(HEADERS, END_HEADERS, stream, block) + data):
            return
        wire.drop_answers()


@attack("64 uploads of 1 MiB that stop halfway")
def halves(target):
    # Within what a newcomer may send; each is given up by the server's own time for a message.
    wire, block = target.wire(), headers_of(SERVICE + "Attend")
    half = struct.pack(">BI", 0, 1 << 20) + bytes(1 << 19)
    for stream in range(1, 129, 2):
        parts = [frame(DATA, 0, stream, half[at:at + (1 << 14)]) for at in range(0, len(half), 1 << 14)]
        if not wire.send(frame(HEADERS, END_HEADERS, stream, block) + b"".join(parts)):
            return
        wire.drop_answers()


@attack("16 sessions with 10,000 actions ahead each")
def actions_ahead(target):
    row = pb.Tensor(dtype=pb.FP32, shape=[1, 1, 1], data=bytes(4))
    step = pb.DecodeRequest(id=2, step=pb.DecodeStep(query_key_value=pb.QueryKeyValue(query=row, key=row, value=row)))
    opening = pb.DecodeRequest(id=1, open=pb.OpenSession(heads=pb.AttentionHeads(num_heads=1, head_dim=1)))
    messages = [opening.SerializeToString(), *[step.SerializeToString()] * 10_000]
    channel = target.channel()
    # Nobody reads the answers until all is sent, or as much as the server lets in.
    streams = [target.open_stream(channel, SERVICE + "Decode", messages) for _ in range(16)]
    for one in streams:
        first(one)


@attack("900 open reflection streams")
def reflection_streams(target):
    calls_that_stay(target, REFLECTION, b"\x3a\x01*", 900)


@attack("4500 watches of health")
def watches(target):
    for _ in range(5):
        calls_that_stay(target, WATCH, b"", 900)


@attack("500 calls without a request")
def calls_without_a_request(target):
    calls_that_stay(target, SERVICE + "Attend", None, 500)


@attack("500 streams without a request")
def streams_without_a_request(target):
    calls_that_stay(target, SERVICE + "Decode", None, 500)


@attack("900 calls of unknown methods")
def unknown_methods(target):
    calls_that_stay(target, SERVICE + "Unknown", None, 900)
