"""Addresses, certificates, tokens and metadata; servers that go and come back."""

import http.server
import tempfile
import threading
import unittest

import attend
import grpc
from attend.connection import Connection
from support import CERTIFICATES, TIMEOUT, FakeServer, Server, eventually, offered_flags


class ConnectionTest(unittest.TestCase):
    def test_a_server_that_is_not_there_is_named(self):
        with attend.Client("unix:/nonexistent/attend.sock") as client:
            with self.assertRaisesRegex(attend.Unavailable, "server unix:/nonexistent/attend.sock: "):
                client.list_models()

    def test_a_port_that_speaks_another_protocol_is_named(self):
        plain = Server()
        secure = Server(f"--tls-certificate={CERTIFICATES}/server.pem", f"--tls-key={CERTIFICATES}/server.key")
        quiet = type("Quiet", (http.server.BaseHTTPRequestHandler,), {"log_message": lambda *_: None})
        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), quiet)
        for stop in (plain.stop, secure.stop, web.server_close, web.shutdown):
            self.addCleanup(stop)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        for server, tls, hint in (
            (plain.address, True, "the server speaks no TLS: connect without tls"),
            (secure.address, None, "the server closed the new connection: does it need tls, or a certificate in it?"),
            (
                f"127.0.0.1:{web.server_port}",
                None,
                "the server speaks no HTTP/2: is this the port of /metrics, or a proxy that needs tls?",
            ),
        ):
            with self.subTest(hint=hint), attend.Client(server, tls=tls, retries=False) as client:
                for act in (client.list_models, lambda: client.session(model="demo")):
                    with self.assertRaises(attend.Unavailable) as caught:
                        act()
                    self.assertTrue(caught.exception.message.endswith(f" ({hint})"), caught.exception.message)

    def test_a_server_that_comes_back_is_found_again(self):
        with tempfile.TemporaryDirectory() as folder:
            address = f"unix:{folder}/attend.sock"
            with attend.Client(address) as client:
                for _ in range(2):
                    server = Server(listen=address)
                    client.wait_until_ready(timeout=TIMEOUT)
                    session = client.session(model="demo")
                    self.assertEqual([model.name for model in client.list_models()], ["demo"])
                    server.stop()
                    with self.assertRaises(attend.AttendError):
                        session.step(token_ids=[1])

    def test_the_next_call_reaches_a_server_that_has_restarted(self):
        with tempfile.TemporaryDirectory() as folder:
            address = f"unix:{folder}/attend.sock"
            server = Server(listen=address)
            with attend.Client(address, timeout=TIMEOUT) as client:
                client.wait_until_ready()
                server.stop()
                with self.assertRaises(attend.AttendError):
                    client.list_models(timeout=0.05)
                self.addCleanup(Server(listen=address).stop)
                self.assertEqual([model.name for model in client.list_models()], ["demo"])

    def test_a_server_that_never_is_there_is_not_ready(self):
        with attend.Client("unix:/nonexistent/attend.sock") as client:
            with self.assertRaisesRegex(attend.DeadlineExceeded, "not ready within 0.2 s: .*nonexistent"):
                client.wait_until_ready(timeout=0.2)

    def test_options_and_interceptors_reach_the_channel(self):
        class Counting(grpc.UnaryUnaryClientInterceptor):
            seen = []

            def intercept_unary_unary(self, proceed, details, request):
                self.seen.append(details.method)
                return proceed(details, request)

        server = Server()
        self.addCleanup(server.stop)
        options = [("grpc.max_receive_message_length", 1)]
        with attend.Client(server.address, options=options, interceptors=[Counting()]) as client:
            with self.assertRaisesRegex(attend.ResourceExhausted, "larger than max"):
                client.list_models()
        self.assertEqual(Counting.seen, ["/attention.v1.AttentionService/ListModels"])

    def test_several_servers_take_turns(self):
        servers = [Server(), Server()]
        for server in servers:
            self.addCleanup(server.stop)
        with attend.Client([server.address for server in servers]) as client:
            for server in servers:  # its connection may come later than the other's
                with self.subTest(server=server.address), attend.Client(server.address) as one:
                    self.assertTrue(
                        eventually(lambda: client.attend(token_ids=[1], model="demo") and one.get_statistics().succeeded > 0)
                    )

    def test_tls_to_the_name_and_by_the_authority_it_expects(self):
        server = Server(f"--tls-certificate={CERTIFICATES}/server.pem", f"--tls-key={CERTIFICATES}/server.key")
        self.addCleanup(server.stop)
        ca = CERTIFICATES / "ca.pem"
        for tls in (attend.Tls(ca=ca), attend.Tls(ca=str(ca), server_name="localhost")):
            for servers in (server.address, [server.address, server.address]):
                with self.subTest(tls=tls, server=servers), attend.Client(servers, tls=tls, token="secret") as client:
                    self.assertTrue(client.check_health())
        for tls in (attend.Tls(ca=ca.read_bytes(), server_name="elsewhere"), attend.Tls(ca=CERTIFICATES / "other_ca.pem")):
            with self.subTest(tls=tls), attend.Client(server.address, tls=tls) as client:
                with self.assertRaises(attend.Unavailable):
                    client.check_health()

    def test_servers_that_demand_a_certificate_are_shown_one(self):
        if "--tls-client-ca" not in offered_flags():
            self.skipTest("this server does not demand certificates")
        server = Server(
            f"--tls-certificate={CERTIFICATES}/server.pem",
            f"--tls-key={CERTIFICATES}/server.key",
            f"--tls-client-ca={CERTIFICATES}/ca.pem",
        )
        self.addCleanup(server.stop)
        own = dict(certificate=CERTIFICATES / "client.pem", key=CERTIFICATES / "client.key")
        with attend.Client(server.address, tls=attend.Tls(ca=CERTIFICATES / "ca.pem", **own)) as client:
            self.assertTrue(client.list_models())
        with attend.Client(server.address, tls=attend.Tls(ca=CERTIFICATES / "ca.pem")) as client:
            with self.assertRaises(attend.Unavailable):
                client.list_models()

    def test_tokens_do_not_leave_this_machine_in_plaintext(self):
        for servers in ("example.com:8001", "dns:///example.com:8001", "127.example.com:1", ["127.0.0.1:1", "10.0.0.1:2"]):
            for secret in (dict(token="secret"), dict(metadata={"Authorization": "Bearer secret"})):
                with self.subTest(server=servers), self.assertRaisesRegex(ValueError, "token: expected TLS"):
                    attend.Client(servers, **secret)
        for servers in ("127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/a", "dns:///localhost:1"):
            attend.Client(servers, token="secret").close()

    def test_tokens_of_one_call_do_not_leave_this_machine_in_plaintext(self):
        with attend.Client("example.invalid:8001", timeout=5) as client:
            secret = {"Authorization": "Bearer secret"}
            for call in (
                lambda: client.attend(token_ids=[1], model="demo", metadata=secret),
                lambda: client.attend_stream(token_ids=[1], model="demo", metadata=secret),
                lambda: client.session(model="demo", metadata=secret),
                lambda: client.list_models(metadata=secret),
            ):
                with self.assertRaisesRegex(ValueError, "token: expected TLS"):
                    call()

    def test_no_error_shows_a_token(self):
        def show(call):
            with self.assertRaises((TypeError, ValueError)) as caught:
                call()
            self.assertNotIn("secret", str(caught.exception))
            return str(caught.exception)

        words = "token: expected printable ASCII characters, found others"
        self.assertEqual(show(lambda: attend.Client(token="secret1\nsecret2")), words)
        self.assertEqual(show(lambda: attend.Client(token=b"secret")), "token: expected a text, found bytes")
        metadata = {"authorization": "Bearer secret\n1"}
        self.assertEqual(show(lambda: attend.Client(metadata=metadata)), f"metadata.authorization{words[5:]}")
        pairs = [("authorization", "secret")]
        self.assertEqual(show(lambda: attend.Client(metadata=pairs)), "metadata: expected a dict, found list")
        with attend.Client(token=lambda: "secret1\nsecret2") as client:
            self.assertEqual(show(client.list_models), words)
        with attend.Client(token="secret") as client:  # gRPC's error would show all headers
            self.assertEqual(show(lambda: client.list_models(metadata={"a": "b\n"})), f"metadata.a{words[5:]}")

    def test_what_is_no_tls(self):
        for tls in ("ca.pem", {"ca": "ca.pem"}, 1):
            with self.assertRaisesRegex(TypeError, "tls: expected True, False or an attend.Tls, found"):
                attend.Client(tls=tls)
        for one in ("certificate", "key"):
            with self.assertRaisesRegex(ValueError, f"tls: expected certificate and key together, found {one} alone"):
                attend.Tls(ca=CERTIFICATES / "ca.pem", **{one: CERTIFICATES / f"client.{'pem' if one != 'key' else 'key'}"})

    def test_certificates_that_are_no_pem_are_refused(self):
        own = dict(certificate=CERTIFICATES / "client.pem", key=CERTIFICATES / "client.key")
        for name, kind in (("ca", "certificate"), ("key", "private key"), ("certificate", "certificate")):
            for source in (b"", b"junk", "-----BEGIN JUNK-----"):
                tls = attend.Tls(**{**own, name: source})
                with self.assertRaisesRegex(ValueError, f"^tls: expected a PEM {kind} as {name}, found none$"):
                    attend.Client(tls=tls)

    def test_pem_may_be_a_text(self):
        server = Server(f"--tls-certificate={CERTIFICATES}/server.pem", f"--tls-key={CERTIFICATES}/server.key")
        self.addCleanup(server.stop)
        files = dict(ca="ca.pem", certificate="client.pem", key="client.key")
        tls = attend.Tls(**{name: (CERTIFICATES / file).read_text() for name, file in files.items()})
        with attend.Client(server.address, tls=tls) as client:
            self.assertTrue(client.check_health())

    def test_no_repr_shows_a_secret(self):
        tls = attend.Tls(certificate="own.pem", key=b"secret")
        connection = Connection("127.0.0.1:1", 1, tls, "secret", {"authorization": "secret"}, True)
        self.assertIn("own.pem", repr(connection))
        self.assertNotIn("secret", repr(connection))

    def test_headers_that_grpc_would_take_for_its_own_are_refused(self):
        with attend.Client("127.0.0.1:1") as client:
            for key in ("grpc-timeout", "Grpc-Retry-Pushback-Ms", ":path"):
                with self.assertRaisesRegex(ValueError, "metadata: expected keys .* that do not begin with grpc-, found"):
                    client.list_models(metadata={key: "1"})

    def test_a_closed_client_says_so(self):
        server = Server()
        self.addCleanup(server.stop)
        client = attend.Client(server.address)
        client.attend(token_ids=[1], model="demo")
        client.close()
        client.close()
        for call in (
            lambda: client.attend(token_ids=[1], model="demo"),
            lambda: client.attend_stream(token_ids=[1], model="demo"),
            lambda: client.session(model="demo"),
            client.list_models,
            client.check_health,
        ):
            with self.assertRaisesRegex(attend.Cancelled, "the client is closed"):
                call()

    def test_every_call_takes_metadata(self):
        seen = []

        def answer(method, metadata, _):
            seen.append((method, metadata.get("x-request-id")))
            return [b"\x08\x01" if method == "Check" else b""]

        fake = FakeServer(answer)
        self.addCleanup(fake.stop)
        with attend.Client(fake.address) as client:
            for name, *arguments in (
                ("list_models",), ("get_model", "m"), ("get_statistics",), ("check_health",), ("wait_until_ready",),
                ("list_model_states",), ("load_model", "m"), ("unload_model", "m"), ("reload_models",), ("verify_model", "m"),
                ("set_logging",),
            ):
                getattr(client, name)(*arguments, metadata={"x-request-id": name})
                self.assertEqual(seen[-1][1], name)
        self.assertEqual(len(seen), 11)

    def test_addresses_that_are_none(self):
        for servers in (5, None, ["a:1", 5]):
            with self.subTest(servers), self.assertRaisesRegex(TypeError, "server: expected a text or a list of texts"):
                attend.Client(servers)
        for servers in ("", [], ["a:1", ""], ["unix:/a", "b:1"], "a,b", "a", "a:0", "a:73537", "::1:1", "http://a:1", "a:1,b:0"):
            with self.subTest(servers), self.assertRaisesRegex(ValueError, "server: expected"):
                attend.Client(servers)


if __name__ == "__main__":
    unittest.main()
