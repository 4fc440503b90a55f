"""What goes through deploy/edge and what does not: the shipped configuration, started as README.md says, before a real server.

    ATTEND_SOURCE=. ATTEND_SERVER_BINARY=build/release/bin/attend-server /usr/bin/python3 tests/faults/edge_test.py -v
"""

import hashlib
import json
import os
import pathlib
import queue
import re
import socket
import subprocess
import tempfile
import unittest

import grpc
import h2.config
import h2.connection
import numpy as np

from attack import Target, call_headers
from edge import Edge, TLS, free_port
from faults_test import grpc_status
from harness import CHANNEL, PATIENCE_S, SERVICE, SOURCE, Server, eventually, expect, is_idle, pb, request, stream


def secure_channel(edge):
    credentials = grpc.ssl_channel_credentials(pathlib.Path(edge.ca_file).read_bytes())
    return grpc.secure_channel(edge.address, credentials, [
        *CHANNEL, ("grpc.ssl_target_name_override", "localhost"), ("grpc.enable_retries", 0), ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1)])


class Session:
    """A Decode stream of attention without a model that is asked and answered in turn."""

    def __init__(self, channel, metadata=None):
        self._actions, self._id = queue.Queue(), 0
        decode = channel.stream_stream(SERVICE + "Decode", pb.DecodeRequest.SerializeToString, pb.DecodeResponse.FromString)
        self._answers = decode(iter(self._actions.get, None), timeout=PATIENCE_S, metadata=metadata)
        self.ask(open=pb.OpenSession(heads=pb.AttentionHeads(num_heads=1, head_dim=4)))

    def ask(self, **action):
        """Sends it, waits for all of its answer, and returns the length of the sequence."""
        self._id += 1
        self._actions.put(pb.DecodeRequest(id=self._id, **action))
        for answer in self._answers:
            if answer.HasField("result"):
                assert answer.result.code == 0, answer.result.message
                return answer.result.length
        raise AssertionError("the stream ended")

    def step(self):
        row = pb.Tensor(dtype=pb.FP32, shape=[1, 1, 4], data=np.ones(4, np.float32).tobytes())
        return self.ask(step=pb.DecodeStep(query_key_value=pb.QueryKeyValue(query=row, key=row, value=row)))

    def end(self):
        self._actions.put(None)
        return list(self._answers)


class Passes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())
        cls.edge = cls.enterClassContext(Edge(cls.server))
        cls.channel = cls.enterClassContext(secure_channel(cls.edge))

    def code_of(self, method, message=b"", **options):
        return self.channel.unary_unary(method).future(message, timeout=PATIENCE_S, **options).code()

    def test_answers_have_the_bits_of_the_server(self):
        directly, through = self.server.attend(rows=64), self.server.attend(rows=64, channel=self.channel)
        self.assertEqual(directly.output.data, through.output.data)

    def test_streams_of_rows_pass(self):
        def rows(channel):
            return b"".join(part.rows.output.data for part in stream(channel, request(1, 2000)))

        self.assertEqual(rows(self.server.channel), rows(self.channel))

    def test_a_session_is_answered_while_it_goes_on(self):
        session = Session(self.channel)
        self.assertEqual([session.step() for _ in range(5)], [1, 2, 3, 4, 5])
        self.assertEqual(session.end(), [])

    def test_a_message_of_100_mib_reaches_the_server(self):
        # It is no request, which only the server can tell.
        self.assertEqual(self.code_of(SERVICE + "Attend", b"\x0a\x04demo\x12" + b"\xff" * (100 << 20)),
                         self.server.channel.unary_unary(SERVICE + "Attend").future(
                             b"\x0a\x04demo\x12" + b"\xff" * (100 << 20), timeout=PATIENCE_S).code())

    def test_a_message_beyond_the_servers_limit_is_refused(self):
        self.assertEqual(self.code_of(SERVICE + "Attend", bytes(258 << 20)), grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_administration_and_reflection_are_not_served(self):
        refused = ["LoadModel", "UnloadModel", "ReloadModels", "VerifyModel", "SetLogging", "ListModelStates", "Nothing"]
        methods = [SERVICE + name for name in refused] + [
            "/inference.GRPCInferenceService/" + name
            for name in ("RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload", "SystemSharedMemoryRegister")]
        methods.append("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        for method in methods:
            self.assertEqual(self.code_of(method), grpc.StatusCode.UNIMPLEMENTED, method)

    def test_health_is_told(self):
        self.assertEqual(self.code_of("/grpc.health.v1.Health/Check"), grpc.StatusCode.OK)

    def test_a_broken_binary_header_ends_its_own_call_alone(self):
        # gRPC 1.51 takes it for a broken connection; calls that shared one with it would end, too (CVE-2023-32732).
        session = Session(self.channel)
        for _ in range(3):
            target = Target(self.edge.address, self.edge.ca_file)
            wire = target.connection()
            http = h2.connection.H2Connection(config=h2.config.H2Configuration(header_encoding="utf-8"))
            http.initiate_connection()
            http.send_headers(1, call_headers(SERVICE + "Attend", ("a-bin", "!!!")), end_stream=True)
            wire.sendall(http.data_to_send())
            self.assertNotIn(grpc_status(wire, http), (0, "closed"))
            target.close()
        self.assertEqual(session.step(), 1)
        session.end()

    def test_a_deadline_that_has_passed_breaks_no_connection_to_the_server(self):
        session = Session(self.channel)
        for timeout in ("0n", "00S", "1x", "123456789S"):
            target = Target(self.edge.address, self.edge.ca_file)
            wire = target.connection()
            http = h2.connection.H2Connection(config=h2.config.H2Configuration(header_encoding="utf-8"))
            http.initiate_connection()
            http.send_headers(1, call_headers("/grpc.health.v1.Health/Check", ("grpc-timeout", timeout)))
            http.send_data(1, bytes(5), end_stream=True)
            wire.sendall(http.data_to_send())
            self.assertEqual(grpc_status(wire, http), 0, f"{timeout}: the server is asked without it")
            target.close()
        self.assertEqual(session.step(), 1)
        session.end()

    def test_a_cancelled_call_is_cancelled_in_the_server(self):
        blocks = stream(self.channel, request(1, 16384, causal=True))
        next(blocks)
        blocks.cancel()
        eventually("the server is idle", lambda: is_idle(self.server))


class Limits(unittest.TestCase):
    def test_calls_of_an_address_are_bounded(self):
        with Server() as server, Edge(server, EDGE_CALLS=3) as edge, secure_channel(edge) as channel:
            sessions = [Session(channel) for _ in range(3)]
            with expect(grpc.StatusCode.RESOURCE_EXHAUSTED):
                server.attend(channel=channel)
            sessions.pop().end()
            server.attend(channel=channel)
            for session in sessions:
                session.end()

    def test_addresses_of_one_ipv6_network_count_as_one(self):
        seen_as = "set_real_ip_from 127.0.0.1; real_ip_header x-caller;"
        with Server() as server, Edge(server, seen_as, EDGE_CALLS=1) as edge, secure_channel(edge) as channel:
            def session_of(address):
                return Session(channel, [("x-caller", address)])
            sessions = [session_of(address) for address in ("2001:db8::1", "2001:db8:0:1::1", "10.0.0.1", "10.0.0.2")]
            for address in ("2001:db8::1", "2001:db8::2:0:0:1", "10.0.0.1"):
                with expect(grpc.StatusCode.RESOURCE_EXHAUSTED):
                    session_of(address)
            for session in sessions:
                session.end()

    def test_messages_are_bounded_by_the_servers_limit(self):
        with Server("--max-message-bytes=4194304") as server, Edge(server, EDGE_MESSAGE_BYTES=4194304) as edge:
            with secure_channel(edge) as channel:
                call = channel.unary_unary(SERVICE + "Attend")
                longest = b"\x0a\x04demo\x12" + b"\xff" * (4194304 - 7)
                # It is no request, which only the server can tell.
                self.assertNotEqual(call.future(longest, timeout=PATIENCE_S).details(), "the message exceeds the limit of the edge")
                too_long = call.future(bytes(6 << 20), timeout=PATIENCE_S)
                self.assertEqual(too_long.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                self.assertEqual(too_long.details(), "the message exceeds the limit of the edge")

    def test_calls_of_an_address_a_second_are_bounded(self):
        with Server() as server, Edge(server, EDGE_CALLS_PER_SECOND=1) as edge, secure_channel(edge) as channel:
            codes = []
            for _ in range(4):
                try:
                    server.attend(channel=channel)
                except grpc.RpcError as error:
                    codes.append(error.code())
            self.assertIn(grpc.StatusCode.RESOURCE_EXHAUSTED, codes)

    def test_a_server_that_is_gone_is_unavailable(self):
        with Server() as server, Edge(server) as edge, secure_channel(edge) as channel:
            server.attend(channel=channel)
            server.process.kill()
            server.process.wait()
            with expect(grpc.StatusCode.UNAVAILABLE):
                server.attend(channel=channel)


class BehindTls(unittest.TestCase):
    FLAGS = [f"--tls-certificate={TLS / 'server.pem'}", f"--tls-key={TLS / 'server.key'}"]

    def test_tls_to_a_server_whose_name_is_right(self):
        with Server(*self.FLAGS) as server:
            with Edge(server, EDGE_SERVER_CA=TLS / "ca.pem", EDGE_SERVER_NAME="localhost") as edge:
                with secure_channel(edge) as channel:
                    server.attend(channel=channel)
            for wrong in ({"EDGE_SERVER_CA": TLS / "other_ca.pem", "EDGE_SERVER_NAME": "localhost"},
                          {"EDGE_SERVER_CA": TLS / "ca.pem", "EDGE_SERVER_NAME": "another"}):
                with Edge(server, **wrong) as edge, secure_channel(edge) as channel, expect(grpc.StatusCode.UNAVAILABLE):
                    server.attend(channel=channel)

    def test_tokens_are_judged_by_the_server(self):
        token, tokens = "a token of this test", pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "tokens.json"
        tokens.write_text(json.dumps({"tokens": [{"sha256": hashlib.sha256(token.encode()).hexdigest(), "tenant": "search"}]}))
        with Server(*self.FLAGS, f"--tokens={tokens}") as server:
            edge = self.enterContext(Edge(server, EDGE_SERVER_CA=TLS / "ca.pem", EDGE_SERVER_NAME="localhost"))
            call = self.enterContext(secure_channel(edge)).unary_unary(SERVICE + "ListModels")
            for shown, code in ((None, "UNAUTHENTICATED"), ("Bearer x", "UNAUTHENTICATED"), (f"Bearer {token}", "OK")):
                metadata = [("authorization", shown)] if shown else []
                self.assertEqual(call.future(b"", timeout=PATIENCE_S, metadata=metadata).code().name, code, shown)


def amount(text):
    """Bytes, as nginx writes them."""
    return int(text.rstrip("km")) * {"k": 1 << 10, "m": 1 << 20}.get(text[-1], 1)


def seconds(text):
    return sum(int(number) * {"h": 3600, "m": 60, "s": 1}[unit] for number, unit in re.findall(r"(\d+)([hms])", text))


def configured(test, **variables):
    """What start.sh writes for nginx, which is not started."""
    folder = test.enterContext(tempfile.TemporaryDirectory())
    subprocess.run([SOURCE / "deploy/edge/start.sh"], check=True,
                   env={**os.environ, "EDGE_NGINX": "true", "EDGE_FOLDER": folder, **variables})
    return (pathlib.Path(folder) / "nginx.conf").read_text()


class FitsTheServer(unittest.TestCase):
    """Each limit of the shipped configuration against the server's own default."""

    @classmethod
    def setUpClass(cls):
        said = subprocess.run([os.environ["ATTEND_SERVER_BINARY"], "--print-config"], capture_output=True, text=True, check=True)
        cls.server = json.loads(said.stdout)
        cls.template = (SOURCE / "deploy/edge/nginx.conf.template").read_text()

    def limit(self, name, place=0):
        found = re.findall(rf"\b{name} ([^;]+);", self.template)
        self.assertGreater(len(found), place, name)
        return found[place]

    def test_messages(self):
        # Whatever the server takes passes, and little more.
        default = int(re.search(r"EDGE_MESSAGE_BYTES:=(\d+)", (SOURCE / "deploy/edge/start.sh").read_text())[1])
        self.assertEqual(default, self.server["max_message_bytes"])
        limit = int(re.search(r"client_max_body_size (\d+);", configured(self))[1])
        self.assertGreaterEqual(limit, self.server["max_message_bytes"] + 5)
        self.assertLessEqual(limit, 1.01 * self.server["max_message_bytes"])

    def test_headers(self):
        number, size = self.limit("large_client_header_buffers").split()
        self.assertLessEqual(int(number) * amount(size), self.server["max_header_bytes"])

    def test_calls_of_a_connection(self):
        self.assertLessEqual(int(self.limit("http2_max_concurrent_streams")), self.server["max_concurrent_streams"])

    def test_connections(self):
        # Each call has one; two workers are the default.
        self.assertLessEqual(2 * int(self.limit("worker_connections")), self.server["max_connections"])

    def test_times(self):
        self.assertLess(seconds(self.limit("keepalive_timeout")), seconds(self.server["max_connection_idle"]))
        self.assertLessEqual(seconds(self.limit("send_timeout")), seconds(self.server["reply_patience"]))
        self.assertGreater(seconds(self.limit("grpc_read_timeout")), seconds(self.server["max_queue_wait"]))
        self.assertGreaterEqual(seconds(self.limit("worker_shutdown_timeout")), seconds(self.server["grace_period"]))


class Starts(unittest.TestCase):
    def test_a_value_that_would_change_the_configuration_is_refused(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for value in ("a|b", "a&b", "a\\b", "a\nb", "8443 ssl; listen 8444", "8443{", "8443}", "'8443'", '"8443"', "$host", "8443#", "a\tb"):
            found = subprocess.run([SOURCE / "deploy/edge/start.sh", "-t"], capture_output=True, text=True,
                                   env={**os.environ, "EDGE_LISTEN": value, "EDGE_FOLDER": folder})
            self.assertEqual(found.returncode, 1)
            self.assertIn("EDGE_LISTEN: expected no", found.stderr)

    def test_a_check_leaves_no_folder(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for argument, program, listen, status in (
            ("-t", "true", "8443", 0), ("-t", "false", "8443", 1), ("-t", "true", "a b", 1), ("-T", "true", "8443", 0), ("-v", "true", "8443", 0),
        ):
            found = subprocess.run([SOURCE / "deploy/edge/start.sh", argument], capture_output=True, text=True,
                                   env={**os.environ, "TMPDIR": folder, "EDGE_NGINX": program, "EDGE_LISTEN": listen})
            self.assertEqual((found.returncode, os.listdir(folder)), (status, []), found.stderr)
        subprocess.run([SOURCE / "deploy/edge/start.sh"], check=True, env={**os.environ, "TMPDIR": folder, "EDGE_NGINX": "true"})
        self.assertEqual(len(os.listdir(folder)), 1, "nginx has its configuration")

    def listeners(self, **variables):
        return re.findall(r"^ *listen (\S+) ", configured(self, **variables), re.MULTILINE)

    def refuses_numbers_beyond(self, name, most):
        for value in ("0", "010", "-1", "64m", str(most + 1), "99999999999999999999", "1 2"):
            found = subprocess.run([SOURCE / "deploy/edge/start.sh", "-t"], capture_output=True, text=True,
                                   env={**os.environ, "EDGE_NGINX": "true", name: value})
            self.assertEqual(found.returncode, 1, value)
            self.assertIn(f"{name}: expected a whole number of 1 to {most}, found {value}", found.stderr)

    def test_the_size_of_a_message_has_to_be_one_of_grpc(self):
        self.assertIn("client_max_body_size 2148532223;", configured(self, EDGE_MESSAGE_BYTES="2147483647"))
        self.refuses_numbers_beyond("EDGE_MESSAGE_BYTES", 2147483647)

    def test_the_calls_of_an_address_have_to_be_as_many_as_nginx_takes(self):
        with Server() as server, Edge(server, EDGE_CALLS=65535):
            pass  # it has started
        self.refuses_numbers_beyond("EDGE_CALLS", 65535)

    def test_a_bare_port_is_served_on_ipv6_too_where_the_machine_has_it(self):
        self.assertEqual(self.listeners(EDGE_IPV6="yes"), ["8443", "[::]:8443"])
        self.assertEqual(self.listeners(EDGE_IPV6="yes", EDGE_LISTEN="443"), ["443", "[::]:443"])
        self.assertEqual(self.listeners(EDGE_IPV6="no"), ["8443"])
        for address in ("127.0.0.1:8443", "[::1]:8443", "localhost:8443"):
            self.assertEqual(self.listeners(EDGE_IPV6="yes", EDGE_LISTEN=address), [address])
        addresses = pathlib.Path("/proc/net/if_inet6")
        has_ipv6 = addresses.exists() and addresses.read_text() != ""
        self.assertEqual(self.listeners(), ["8443", "[::]:8443"] if has_ipv6 else ["8443"])
        found = subprocess.run([SOURCE / "deploy/edge/start.sh", "-t"], capture_output=True, text=True,
                               env={**os.environ, "EDGE_IPV6": "maybe"})
        self.assertIn("EDGE_IPV6: expected yes or no, found maybe", found.stderr)

    def test_callers_reach_a_bare_port_by_both_families(self):
        families = ["127.0.0.1"]
        try:
            with socket.socket(socket.AF_INET6) as one:
                one.bind(("::1", 0))
            families.append("[::1]")
        except OSError:
            pass  # a machine without IPv6
        port = free_port()
        with Server() as server, Edge(server, EDGE_LISTEN=port) as edge:
            for host in families:
                edge.address = f"{host}:{port}"
                with secure_channel(edge) as channel:
                    server.attend(channel=channel)


if __name__ == "__main__":
    unittest.main()
