"""What must hold when clients, machine or operator do the worst: one test a fault; each prints what it saw.

    ATTEND_SOURCE=. ATTEND_SERVER_BINARY=build/release/bin/attend-server /usr/bin/python3 tests/faults/faults_test.py -v
"""

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc
import numpy as np

from harness import CHANNEL, PATIENCE_S, SERVER, SERVICE, Server, eventually, expect, is_idle, pb, request, stream
from raw_call import grpc_status, raw_call, read_answer

# A client that reads no further than it was asked to.
READS_LITTLE = [("grpc.http2.lookahead_bytes", 65536), ("grpc.http2.bdp_probe", 0)]


def say(text):
    print(f"\n    {text}", file=sys.stderr, flush=True)


def is_closed(wire):
    """Whether the other side has closed the connection; forgets what it has sent."""
    try:
        while wire.recv(65536, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


class ServerEnds(unittest.TestCase):
    def test_an_answer_on_its_way_arrives(self):
        # The system has taken the whole answer from the server, and the client has not read it yet.
        tokens = 1000
        message = pb.AttendRequest(model="demo", token_ids=pb.TokenIds(ids=range(tokens), lengths=[tokens]))
        with Server("--grace-period=10m") as server:
            wire, http = raw_call(server, message.SerializeToString(), window=1 << 26, receive_bytes=1 << 16)
            eventually("it is computed", lambda: server.statistics().batch_requests >= 1 and is_idle(server))
            server.channel.close()
            server.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(2)  # so long the client does something else
            size, status = read_answer(wire, http)
            self.assertEqual(status, 0)
            self.assertGreater(size, tokens * 512 * 4)
            self.assertEqual(server.process.wait(PATIENCE_S), 0)
            wire.close()
        say(f"{size} bytes arrived, of which the client had read nothing when the server was told to end")

    def drain_beside_steps(self, forks):
        """Ends a server with a grace period of 1 ms while a session's steps wait, one for each of so many forks. Returns the code of
        each action that was answered, and the code and details of the stream."""
        actions = [pb.DecodeRequest(id=1, open=pb.OpenSession(model="demo"))]
        for number in range(1, forks + 1):
            actions.append(pb.DecodeRequest(id=2, fork=pb.ForkSequence(new_sequence=number)))
        for number in range(1, forks + 1):
            step = pb.DecodeStep(token_ids=pb.TokenIds(ids=[1] * 1000), no_output=True)  # small answers
            actions.append(pb.DecodeRequest(id=number + 2, sequence=number, step=step))
        with Server("--grace-period=1ms", "--threads=1") as server:
            goes_on = threading.Event()  # a client that has not ended its requests

            def send():
                yield from actions
                goes_on.wait(PATIENCE_S)

            session = server.connect().stream_stream(
                SERVICE + "Decode", pb.DecodeRequest.SerializeToString, pb.DecodeResponse.FromString)(send(), timeout=PATIENCE_S)
            codes = {}
            try:
                for response in session:
                    if response.HasField("result"):
                        codes[response.id] = response.result.code
                        if len(codes) == 3:  # the first step is answered, and others wait
                            server.process.send_signal(signal.SIGTERM)  # once: the second one would end it at once
            except grpc.RpcError:
                pass
            goes_on.set()
            self.assertEqual(server.process.wait(PATIENCE_S), 0)
            return codes, session.code(), session.details()

    def test_actions_that_wait_when_the_grace_period_ends_are_answered(self):
        forks = 40
        for _ in range(10):
            codes, code, details = self.drain_beside_steps(forks)
            self.assertEqual(code, grpc.StatusCode.UNAVAILABLE)
            # A connection that is closed while the client still sends is reset, and loses what the client has not read.
            if "reset by peer" not in details:
                break
        self.assertEqual(details, "the server is draining")
        self.assertEqual(sorted(codes), list(range(1, forks + 3)))
        self.assertLessEqual(set(codes.values()), {0, grpc.StatusCode.UNAVAILABLE.value[0]})

    def test_an_idle_connection_holds_up_nothing(self):
        with Server("--grace-period=10m") as server:
            server.attend()
            self.assertEqual(server.stop(), 0)


class ServerDies(unittest.TestCase):
    def test_kill_9_in_a_stream_ends_the_call(self):
        with Server() as server:
            blocks = stream(server.connect(*READS_LITTLE), request(1, 8192, causal=True))
            next(blocks)
            start = time.monotonic()
            server.process.kill()
            with expect(grpc.StatusCode.UNAVAILABLE):
                for _ in blocks:
                    pass
            took = time.monotonic() - start
            say(f"the client heard UNAVAILABLE after {took * 1e3:.0f} ms")

    def test_frozen_for_5_s_it_then_answers_who_still_waits(self):
        with Server() as server:
            patient = server.connect()
            for channel in (server.channel, patient):
                server.attend(channel=channel)
            server.freeze()
            answers = []
            waiter = threading.Thread(target=lambda: answers.append(server.attend(channel=patient)))
            waiter.start()
            start = time.monotonic()
            with expect(grpc.StatusCode.DEADLINE_EXCEEDED):
                server.attend(timeout=1)
            time.sleep(max(0.0, 5 - (time.monotonic() - start)))
            server.process.send_signal(signal.SIGCONT)
            thawed = time.monotonic()
            waiter.join(PATIENCE_S)
            self.assertEqual(len(answers), 1)
            took = time.monotonic() - thawed
            eventually("idle again", lambda: is_idle(server))
            say(f"deadlines held while it was frozen; the patient call was answered {took * 1e3:.0f} ms after it thawed")

    def test_a_full_disk_for_its_log_does_not_stop_it(self):
        with open("/dev/full", "w") as full, Server("--log-requests=all", log=full) as server:
            for _ in range(50):
                server.attend()
            self.assertEqual(server.stop(), 0)
            say("50 requests answered, clean end, with a log that cannot be written")

    def test_output_that_cannot_be_written_is_an_error(self):
        for flag in ("--help", "--version", "--print-config", "--print-config-schema", "--make-token=a", "--check-config"):
            with open("/dev/full", "w") as full:
                ended = subprocess.run([SERVER, flag], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(ended.returncode, 1, flag)
            self.assertTrue(ended.stderr.endswith("attend-server: standard output cannot be written\n"), flag)

    def test_few_files_leave_room_for_health(self):
        with tempfile.TemporaryDirectory() as folder, \
                Server(f"--health-listen=unix:{folder}/health", files=64) as server:
            idle = [server.socket() for _ in range(200)]
            eventually("connections are refused", lambda: "connections are refused: 32 are open" in server.log())
            with grpc.insecure_channel(f"unix:{folder}/health", CHANNEL) as channel:
                check = channel.unary_unary("/grpc.health.v1.Health/Check", None, None)
                self.assertEqual(check(b"", timeout=PATIENCE_S), b"\x08\x01")
            for wire in idle:
                wire.close()

            def is_answered():
                with contextlib.suppress(grpc.RpcError), server.connect() as channel:
                    return server.attend(channel=channel)

            eventually("there is room again", is_answered)


class ClientMisbehaves(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.__exit__)
        self.server.attend()

    def test_clients_killed_in_a_stream_leave_nothing(self):
        script = ("import sys; sys.path.insert(0, sys.argv[1]); import harness, grpc;"
                  "channel = grpc.insecure_channel(sys.argv[2], harness.CHANNEL);"
                  "blocks = harness.stream(channel, harness.request(1, 8192, causal=True));"
                  "next(blocks); print('first', flush=True); list(blocks)")
        for _ in range(3):
            child = subprocess.Popen([sys.executable, "-c", script, os.path.dirname(__file__), self.server.address],
                                     stdout=subprocess.PIPE, text=True)
            self.assertEqual(child.stdout.readline(), "first\n")
            child.kill()
            child.wait()
            child.stdout.close()
            took = eventually("the killed client's request is given up", lambda: is_idle(self.server))
        say(f"the last one's request was gone {took * 1e3:.0f} ms after kill -9")

    def attend_beside(self, number, make):
        """So many connections that `make` makes, and how long a request took while half of them or more were open: the server takes
        few of a host at once. It drops them in time, so a machine that stands still for as long needs another try."""
        before = self.server.open_files()
        enough = before + number // 2
        for _ in range(10):
            held = [make() for _ in range(number)]
            eventually("they are connected", lambda: self.server.open_files() >= enough or is_closed(held[0]))
            start = time.monotonic()
            self.server.attend()
            took = time.monotonic() - start
            if self.server.open_files() >= enough:
                return held, took
            for wire in held:
                wire.close()
            eventually("they are gone", lambda: self.server.open_files() <= before + 2)
        raise AssertionError("10 times, connections were dropped before a request beside them was answered")

    def test_slow_loris_holds_no_one_up_and_is_dropped(self):
        def loris():
            wire = self.server.socket()
            wire.sendall(b"P")  # of HTTP/2's preface
            return wire

        before = self.server.open_files()
        lorises, took = self.attend_beside(200, loris)
        dropped = eventually("connections that never finish their handshake are closed",
                             lambda: self.server.open_files() <= before + 5)
        for loris in lorises:
            loris.close()
        say(f"a request beside 200 of them took {took * 1e3:.1f} ms; all were closed after {dropped:.0f} s")

    def vanished_peer(self):
        """A peer that vanished without a word: its socket is there, nobody reads, nobody writes."""
        body = request(1, 16).SerializeToString()
        return raw_call(self.server, body, end_stream=False, declared=len(body) + 1)[0]

    def test_half_open_connections_hold_no_one_up(self):
        wires, took = self.attend_beside(100, self.vanished_peer)
        for wire in wires:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.close()  # a reset
        eventually("idle again", lambda: is_idle(self.server))
        say(f"a request beside 100 of them took {took * 1e3:.1f} ms")

    def test_peers_that_vanished_are_dropped(self):
        before = self.server.open_files()
        wires, _ = self.attend_beside(20, self.vanished_peer)
        # A ping after 60 s, and 20 s for its answer.
        took = eventually("the server drops them by itself", lambda: self.server.open_files() <= before + 2)
        for wire in wires:
            wire.close()
        eventually("their calls are gone", lambda: is_idle(self.server))
        say(f"20 of them were dropped after {took:.0f} s")

    def test_answers_that_nobody_reads_are_bounded_and_make_room(self):
        with Server("--max-reply-bytes=50000000", "--reply-patience=1s") as server:
            channel = server.connect(*READS_LITTLE)
            server.attend()
            before = server.resident_mib()
            streams = [stream(channel, request(1, 2048)) for _ in range(10)]
            eventually("all are computed", lambda: server.statistics().batch_requests >= 11 and is_idle(server))
            held = server.resident_mib() - before
            self.assertLess(held, 200)
            start = time.monotonic()
            # 10 answers of 4 MiB are 8/9 of the room. Whoever comes next is refused, until those have had their time.
            refused = 0
            while True:
                try:
                    server.attend(rows=2048)
                    break
                except grpc.RpcError as error:
                    self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                    self.assertIn("--max-reply-bytes", error.details())
                    refused += 1
                    self.assertLess(refused, 3000)
                    time.sleep(0.1)
            took = time.monotonic() - start
            self.assertGreater(refused, 0)
            ends = []
            for blocks in streams:
                try:
                    for _ in blocks:
                        pass
                    ends.append("read")
                except grpc.RpcError as error:
                    ends.append(error.code())
            self.assertIn(grpc.StatusCode.CANCELLED, ends, "the server gave up those whose time was over")
            self.assertLessEqual(set(ends), {grpc.StatusCode.CANCELLED, "read"})
            channel.close()
            eventually("the answers are gone", lambda: is_idle(server))
            eventually("the log says why", lambda: "refused_for=reply_bytes error=\"the caller did not read" in server.log())
            say(f"10 unread answers of 4 MiB held {held:.0f} MiB; another request was let in after {took:.1f} s")

    def test_a_session_that_sends_ahead_is_read_as_it_is_computed(self):
        def ones(*shape):
            return pb.Tensor(dtype=pb.FP32, shape=shape, data=np.ones(shape, np.float32).tobytes())

        heads = pb.AttentionHeads(num_heads=64, num_kv_heads=1, head_dim=64)
        step = pb.DecodeStep(query_key_value=pb.QueryKeyValue(
            query=ones(400, 64, 64), key=ones(400, 1, 64), value=ones(400, 1, 64)))
        # Small, and a second or more of one thread.
        rows = ones(32000, 1, 64)
        long_request = pb.AttendRequest(query_key_value=pb.QueryKeyValue(query=rows, key=rows, value=rows))

        def actions():
            yield pb.DecodeRequest(id=1, open=pb.OpenSession(heads=heads))
            for i in range(40):
                yield pb.DecodeRequest(id=i + 2, step=step)

        with Server("--threads=1") as server:
            long = stream(server.connect(), long_request)
            time.sleep(0.3)
            before = server.resident_mib()
            decode = server.connect().stream_stream(
                SERVICE + "Decode", pb.DecodeRequest.SerializeToString, pb.DecodeResponse.FromString)
            session = decode(actions(), timeout=PATIENCE_S)
            time.sleep(1.0)
            held = server.resident_mib() - before
            long.cancel()
            session.cancel()
            self.assertLess(held, 120)
            eventually("idle again", lambda: is_idle(server))
            say(f"of 250 MiB of steps that wait for each other the server held {held:.0f} MiB")

    def test_a_deadline_in_eleven_thousand_years_is_none(self):
        wire, http = raw_call(self.server, request(1, 4).SerializeToString(), headers=[("grpc-timeout", "99999999H")])
        self.assertEqual(grpc_status(wire, http), 0)
        wire.close()

    def test_messages_that_lie_about_their_length(self):
        body = request(1, 4).SerializeToString()
        seen = {}
        for name, declared in (("longer than sent", len(body) + 100), ("shorter than sent", len(body) - 100),
                               ("4 GiB", 0xFFFFFFFF), ("nothing", 0)):
            wire, http = raw_call(self.server, body, declared=declared)
            seen[name] = grpc_status(wire, http)
            wire.close()
            self.assertNotEqual(seen[name], 0, name)
            self.server.attend()
        eventually("idle again", lambda: is_idle(self.server))
        say(f"statuses: {seen}")

    def test_garbage_instead_of_http2_closes_that_connection_alone(self):
        for garbage in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(range(256)) * 64, b"\x16\x03\x01" + b"\0" * 500):
            wire = self.server.socket()
            wire.sendall(garbage)
            try:
                while wire.recv(65536):
                    pass
            except ConnectionResetError:
                pass
            wire.close()
            self.server.attend()

    def test_1000_random_cancels_leave_nothing(self):
        draws = random.Random(7)
        before = self.server.resident_mib()
        channels = [self.server.connect() for _ in range(4)]
        short, long = request(1, 16), request(1, 2048, causal=True)
        for turn in range(1000):
            blocks = stream(channels[turn % 4], long if turn % 50 == 0 else short)
            delay = draws.choice([0, 0, 0.0005, 0.002])
            if delay:
                time.sleep(delay)
            blocks.cancel()
        eventually("idle again", lambda: is_idle(self.server))
        reply = self.server.attend()
        grown = self.server.resident_mib() - before
        self.assertLess(grown, 300)
        for channel in channels:
            channel.close()
        self.assertEqual(len(reply.output.data), 4 * 512 * 4)
        self.assertEqual(self.server.stop(), 0)
        say(f"idle after 1,000 cancels; memory grew by {grown:.0f} MiB; clean end")


if __name__ == "__main__":
    unittest.main()
