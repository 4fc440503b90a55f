"""What goes wrong: refusals, deadlines, servers that go away, answers that do not hold together."""

import pathlib
import tempfile
import threading
import time
import unittest
import unittest.mock

import attend
import grpc
import numpy as np
from attend._proto import message_class
from attend.connection import Connection
from support import CERTIFICATES, TIMEOUT, FakeServer, ServedTest, Server, error_of, eventually, offered_flags, seeded


class RefusalTest(ServedTest):
    def setUp(self):
        self.client = attend.Client(self.server.address)
        self.addCleanup(self.client.close)

    def test_the_servers_words_under_the_codes_class(self):
        x = seeded(2, 3)
        with self.assertRaises(attend.InvalidArgument) as caught:
            self.client.attend(x, model="demo")
        self.assertEqual(caught.exception.code, grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(caught.exception.message, "hidden_states.tensor.shape: expected rows of 512, found [2, 3]")
        self.assertEqual(str(caught.exception), f"INVALID_ARGUMENT: {caught.exception.message}")
        with self.assertRaises(attend.NotFound):
            self.client.attend(x, model="demo", model_version=7)
        with attend.Client(self.server.admin) as admin, self.assertRaises(attend.FailedPrecondition):
            admin.unload_model("demo")

    def test_deadlines_are_those_of_the_call(self):
        with self.assertRaisesRegex(attend.DeadlineExceeded, "no answer within 1e-06 s"):
            self.client.attend(seeded(2, 512), model="demo", timeout=1e-6)

    def test_request_ids_come_back(self):
        with self.assertRaises(attend.NotFound) as caught:
            self.client.attend(token_ids=[1], model="nobody", metadata={"X-Request-Id": "abc-1"})
        self.assertEqual(caught.exception.trailers["x-request-id"], "abc-1")

    def test_messages_past_the_servers_limit_name_its_flag(self):
        server = Server("--max-message-bytes=10000")
        self.addCleanup(server.stop)
        with attend.Client(server.address) as client:
            with self.assertRaisesRegex(attend.ResourceExhausted, "--max-message-bytes"):
                client.attend(seeded(20, 512), model="demo")

    def test_sessions_past_the_servers_limit_are_refused(self):
        server = Server("--max-sessions=1")
        self.addCleanup(server.stop)
        with attend.Client(server.address) as client, client.session(model="demo"):
            with self.assertRaises(attend.ResourceExhausted):
                client.session(model="demo")


class ConnectionTest(unittest.TestCase):
    def test_a_server_that_is_not_there_is_named(self):
        with attend.Client("unix:/nonexistent/attend.sock") as client:
            with self.assertRaisesRegex(attend.Unavailable, "server unix:/nonexistent/attend.sock: "):
                client.list_models()

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


class RetryTest(unittest.TestCase):
    """Against a server that fails as it is told to."""

    def client_of(self, answer, **options):
        self.fake = FakeServer(answer)
        self.addCleanup(self.fake.stop)
        client = attend.Client(self.fake.address, **options)
        self.addCleanup(client.close)
        return client

    def failing(self, code, times, pushback=None):
        def answer(_, __, context):
            if len(self.fake.calls) <= times:
                if pushback is not None:
                    context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),))
                context.abort(code, "as told")
            return [message_class("ListModelsResponse")().SerializeToString()]

        return answer

    def test_unavailable_is_tried_again(self):
        self.assertEqual(self.client_of(self.failing(grpc.StatusCode.UNAVAILABLE, 2)).list_models(), [])
        self.assertEqual(len(self.fake.calls), 3)

    def test_only_so_often(self):
        for retries, attempts in ((True, 5), (False, 1)):
            with self.assertRaisesRegex(attend.Unavailable, "as told"):
                self.client_of(self.failing(grpc.StatusCode.UNAVAILABLE, 9), retries=retries).list_models()
            self.assertEqual(len(self.fake.calls), attempts)

    def test_resource_exhausted_is_tried_again_when_the_server_says_when(self):
        self.assertEqual(self.client_of(self.failing(grpc.StatusCode.RESOURCE_EXHAUSTED, 2, "1")).list_models(), [])
        with self.assertRaises(attend.ResourceExhausted):
            self.client_of(self.failing(grpc.StatusCode.RESOURCE_EXHAUSTED, 1)).list_models()
        self.assertEqual(len(self.fake.calls), 1)

    def test_the_pause_is_kept_though_the_client_is_connected(self):
        client = self.client_of(self.failing(grpc.StatusCode.UNAVAILABLE, 2, "300"))
        begin = time.monotonic()
        client.list_models()
        self.assertGreaterEqual(time.monotonic() - begin, 0.6)

    def test_not_when_that_is_past_the_deadline(self):
        client = self.client_of(self.failing(grpc.StatusCode.RESOURCE_EXHAUSTED, 1, "60000"), timeout=10)
        with self.assertRaises(attend.ResourceExhausted) as caught:
            client.list_models()
        self.assertEqual((caught.exception.retry_after, len(self.fake.calls)), (60, 1))

    def test_nothing_else_is_tried_again(self):
        for code in grpc.StatusCode:
            if code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE):
                continue
            with self.subTest(code), self.assertRaises(attend.AttendError) as caught:
                self.client_of(self.failing(code, 1)).list_models()
            self.assertEqual((caught.exception.code, len(self.fake.calls)), (code, 1))

    def test_streams_are_tried_again_until_they_begin(self):
        def answer(_, __, context):
            if len(self.fake.calls) < 3:
                context.abort(grpc.StatusCode.UNAVAILABLE, "as told")
            yield message_class("AttendStreamResponse")(rows={"output": {"dtype": 1, "shape": [0, 4]}}).SerializeToString()
            context.abort(grpc.StatusCode.UNAVAILABLE, "too late")

        stream = self.client_of(answer).attend_stream(token_ids=[1], model="demo")
        self.assertEqual(next(stream).rows.shape, (0, 4))
        with self.assertRaisesRegex(attend.Unavailable, "too late"):
            next(stream)
        self.assertEqual(len(self.fake.calls), 3)

    def test_tokens_are_asked_for_with_each_call(self):
        seen = []

        def answer(_, metadata, __):
            seen.append((metadata["authorization"], metadata["attend-priority"]))
            return [b""]

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "token"
            client = self.client_of(answer, token=attend.token_from_file(path), metadata={"attend-priority": "low"})
            for token in ("first\n", "second"):
                path.write_text(token)
                client.list_models()
        self.assertEqual(seen, [("Bearer first", "low"), ("Bearer second", "low")])

    def test_an_empty_token_is_none(self):
        seen = []

        def answer(_, metadata, __):
            seen.append(metadata.get("authorization"))
            return [b""]

        for token in ("", " ", lambda: "\n", lambda: None):
            self.client_of(answer, token=token).list_models()
        self.assertEqual(seen, [None] * 4)
        attend.Client("example.invalid:8001", token="").close()


class MalformedAnswerTest(unittest.TestCase):
    def answers(self, *messages):
        fake = FakeServer(lambda *_: list(messages))
        self.addCleanup(fake.stop)
        client = attend.Client(fake.address)
        self.addCleanup(client.close)
        return client

    def rows(self, **block):
        shape = block.pop("shape", [1, 4])
        data = bytes(4 * shape[0] * shape[1])
        output = message_class("Tensor")(dtype=1, shape=shape, data=data)
        return message_class("AttendStreamResponse")(rows={"output": output, **block}).SerializeToString()

    def test_bytes_that_are_no_message(self):
        for data in (b"\xff", b"\x0a\x7f", b"\x0a\x05\x12\x01\x02\x1a\x09"):
            with self.subTest(data), self.assertRaisesRegex(attend.Internal, "malformed answer"):
                self.answers(data).attend(token_ids=[1], model="demo")

    def test_tensors_that_lie_about_their_size(self):
        wrapping = ([2**32, 2**32], [0, 2**62, 8], [0, 2**61])
        for shape in ([2, 2], [-1, -4], [2**62, 4], [1] * 40, [], *wrapping):
            tensor = {"dtype": 1, "shape": shape, "data": b"" if shape in wrapping else b"1234"}
            answer = message_class("AttendResponse")(output=tensor).SerializeToString()
            with self.subTest(shape), self.assertRaisesRegex(attend.Internal, "malformed answer: tensor"):
                self.answers(answer).attend(token_ids=[1], model="demo")

    def test_outputs_of_other_rows(self):
        for shape in ([1], [2, 2]):
            tensor = {"dtype": 1, "shape": shape, "data": bytes(4 * shape[0] * shape[-1])}
            answer = message_class("AttendResponse")(output=tensor).SerializeToString()
            with self.subTest(shape), self.assertRaisesRegex(attend.Internal, r"leading extents of the output: expected \(3,\)"):
                self.answers(answer).attend(token_ids=[1, 2, 3], model="demo")

    def test_blocks_of_other_forms_end_streams_and_sessions(self):
        def part(kind, shape, **place):
            tensor = {"dtype": 1, "shape": shape, "data": bytes(4 * int(np.prod(shape, dtype=object)))}
            field = {"rows": "output", "log_sum_exp": "log_sum_exp"}.get(kind, "weights")
            return {kind: {field: tensor, **place}}

        rows, weights = part("rows", [3, 4]), part("weights", [3, 3])
        for words, parts in (
            ("number of extents of a block: expected 2 or 3, found 1", [part("rows", [3])]),
            ("number of extents of a block: expected 1, found 2", [rows, part("log_sum_exp", [3, 1])]),
            ("number of extents of a block: expected 2, found 3", [rows, part("weights", [3, 3, 1])]),
            ("tensor .*: expected 1 to 4 extents", [part("rows", [])]),
            (r"width of a block: expected \(4,\), found \(5,\)", [part("rows", [1, 4]), part("rows", [2, 5], first_row=1)]),
            (r"width of weights: expected \(3,\), found \(2,\)", [rows, part("weights", [1, 3]), part("weights", [2, 2], first_row=1)]),
            (r"width of weights: expected \(3,\), found \(2,\)", [rows, weights, part("weights", [3, 2], head=1)]),
        ):
            stream = [message_class("AttendStreamResponse")(**one).SerializeToString() for one in parts]
            stream.append(message_class("AttendStreamResponse")(summary={}).SerializeToString())
            with self.subTest(words), self.assertRaisesRegex(attend.Internal, f"malformed answer: {words}"):
                self.answers(*stream).attend_stream(token_ids=[1, 2, 3], model="demo").result()
            decoded = [{"id": 1, "result": {}}, *({"id": 2, "part": one} for one in parts), {"id": 2, "result": {"length": 3}}]
            steps = [message_class("DecodeResponse")(**one).SerializeToString() for one in decoded]
            with self.subTest(words, session=True):
                session = self.decoding(*steps).session(model="demo")
                with self.assertRaisesRegex(attend.Internal, f"malformed answer: {words}"):
                    session.step(token_ids=[1, 2, 3])
                self.assertIsInstance(session.broken, attend.Internal)

    def test_rows_too_wide_for_the_memory(self):
        output = message_class("Tensor")(dtype=1, shape=[0, 2**32 - 1])
        block = message_class("AttendStreamResponse")(rows={"output": output}).SerializeToString()
        with self.assertRaisesRegex(attend.Internal, "malformed answer: width of a block: expected one that fits into memory"):
            self.answers(block).attend_stream(token_ids=np.zeros(1 << 18, int), model="demo").result()

    def decoding(self, opened, *step):
        """A client of a server that has answers to the opening of a session and to its first step."""

        def answer(_, __, context):
            yield opened
            next(context.requests)
            yield from step
            while context.is_active():
                time.sleep(0.01)

        fake = FakeServer(answer)
        self.addCleanup(fake.stop)
        client = attend.Client(fake.address)
        self.addCleanup(client.close)
        return client

    def test_health_that_is_no_message(self):
        with self.assertRaisesRegex(attend.Internal, "malformed answer"):
            self.answers(b"\xff\xff\xff").check_health()

    def test_blocks_out_of_order(self):
        for block in (dict(first_row=1), dict(sequence=1), dict(sequence=-1), dict(shape=[2, 4])):
            with self.subTest(block), self.assertRaisesRegex(attend.Internal, "malformed answer"):
                self.answers(self.rows(**block)).attend_stream(token_ids=[1], model="demo").result()

    def test_streams_that_end_early(self):
        with self.assertRaisesRegex(attend.Internal, "ended without a summary"):
            self.answers(self.rows()).attend_stream(token_ids=[1], model="demo").result()

    def test_sessions_whose_stream_ends(self):
        with self.assertRaisesRegex(attend.Internal, "ended before its last answer"):
            self.answers().session(model="demo")

    def test_an_action_without_an_answer_ends_the_session(self):
        opened = message_class("DecodeResponse")(id=1, result={"length": 0}).SerializeToString()

        def answer(_, __, context):
            yield opened
            while context.is_active():
                time.sleep(0.01)

        fake = FakeServer(answer)
        self.addCleanup(fake.stop)
        with attend.Client(fake.address) as client:
            session = client.session(model="demo")
            session._timeout = 0.1  # from here on there is no answer
            with self.assertRaisesRegex(attend.DeadlineExceeded, "no answer within 0.1 s"):
                session.step(token_ids=[1])
            with self.assertRaises(attend.DeadlineExceeded):
                session.step(token_ids=[1])


if __name__ == "__main__":
    unittest.main()
