"""The snippets of client/LANGUAGES.md, each taken from that document and run against the server.

usage: languages_test.py SERVER TEST

TEST is one of the classes below, or a test of it. A language whose tools are missing is skipped: the last line names them, and the
exit code is 77.
"""

import base64
import json
import os
import pathlib
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = REPOSITORY / "client/LANGUAGES.md"
TIMEOUT = 600
# Where Debian has the packages of Go and of Java.
GOPATH = "/usr/share/gocode"
JAVA = pathlib.Path("/usr/share/java")
JARS = ("grpc-*", "netty-*", "opencensus-*", "perfmark-api", "protobuf", "guava", "failureaccess", "gson", "jsr305",
        "geronimo-annotation-*")


def blocks(title):
    """The fenced blocks of a section, each with the language that its fence names."""
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"^```(\w*)\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)


def program(title, language):
    (text,) = [text for name, text in blocks(title) if name == language]
    return text


def with_names_of_1_33(source):
    """The program for the gRPC of Debian 12, as the section "What was run" says."""
    for new, old in (("grpc.NewClient(", "grpc.Dial("), ('\t"google.golang.org/grpc/credentials/insecure"\n', ""),
                     ("grpc.WithTransportCredentials(insecure.NewCredentials())", "grpc.WithInsecure()")):
        if new not in source:
            raise AssertionError(f"expected {new} in the program")
        source = source.replace(new, old)
    return source


def run(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, **options)
    if result.returncode != 0:
        raise AssertionError(f"{command}: {result.stdout}{result.stderr}")
    return result.stdout


class ServedTest(unittest.TestCase):
    """Has the server, and asks it by the messages of the .proto, without any of the snippets."""

    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen(
            [sys.argv[1], "--listen=127.0.0.1:0", "--admin-listen=none", "--metrics-listen=none", "--log-requests=none"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        ready, _, _ = select.select([cls.server.stdout], [], [], TIMEOUT)
        cls.address = cls.server.stdout.readline().split()[-1] if ready else ""
        cls.addClassCleanup(cls.stop)

    @classmethod
    def stop(cls):
        cls.server.terminate()
        cls.server.wait(TIMEOUT)
        cls.server.stdout.close()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        os.symlink(REPOSITORY / "proto", self.folder / "proto")

    def expected(self):
        """Shape and first value of the answer that the programs ask for, by the messages of this test."""
        rows = struct.pack("<1536f", *(i % 7 for i in range(3 * 512)))
        request = {"model": "demo", "options": {"causal": True}, "hiddenStates": {"tensor": {
            "dtype": "FP32", "shape": [3, 512], "data": base64.b64encode(rows).decode()}}}
        output = self.attend(request)["output"]
        return output["shape"], struct.unpack("<f", base64.b64decode(output["data"])[:4])[0]

    def attend(self, request):
        """An answer of Attend, both as protobuf's JSON."""
        import grpc
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

        compiled = self.folder / "attention.binpb"
        run(["protoc", "-I", str(REPOSITORY / "proto"), f"--descriptor_set_out={compiled}", "attention/v1/attention.proto"])
        pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file:
            pool.Add(file)
        if hasattr(message_factory, "GetMessageClass"):
            class_of = message_factory.GetMessageClass
        else:
            class_of = message_factory.MessageFactory(pool).GetPrototype
        kinds = [class_of(pool.FindMessageTypeByName(f"attention.v1.{name}")) for name in ("AttendRequest", "AttendResponse")]
        with grpc.insecure_channel(self.address) as channel:
            call = channel.unary_unary("/attention.v1.AttentionService/Attend", lambda message: message.SerializeToString(),
                                       kinds[1].FromString)
            answer = call(json_format.ParseDict(request, kinds[0]()), timeout=TIMEOUT)
        said = json_format.MessageToDict(answer)
        said["output"]["shape"] = [int(extent) for extent in said["output"]["shape"]]
        return said

    def grpcurl_commands(self):
        (text,) = [text for _, text in blocks("grpcurl")]
        return text.replace("127.0.0.1:8001", self.address)


class SnippetsTest(ServedTest):
    def test_requests_of_grpcurl_are_answered(self):
        """Those requests, read by protobuf's own JSON parser, as grpcurl does."""
        text = self.grpcurl_commands()
        bodies = run(["bash", "-c", 'grpcurl() { while [ $# -gt 0 ]; do [ "$1" != -d ] || printf "%s\\n" "$2"; shift; done; }\n' + text])
        requests = [json.loads(line) for line in bodies.splitlines()]
        self.assertEqual(len(requests), 2)
        shapes = [self.attend(request)["output"]["shape"] for request in requests]
        self.assertEqual(shapes, [[3, 512], [2, 1, 2]])

    def test_every_snippet_has_a_test(self):
        titles = re.findall(r"^## (\w+)$", DOCUMENT.read_text(), re.MULTILINE)
        self.assertGreaterEqual(len(titles), 4)
        self.assertEqual([title for title in titles if not hasattr(LanguagesTest, f"test_{title.lower()}")], [])


class LanguagesTest(ServedTest):
    def need(self, *tools):
        missing = [tool for tool in tools if not shutil.which(tool)]
        if missing:
            self.skipTest(f"not installed: {', '.join(missing)}")

    def check(self, said):
        """`said` has a shape and a number, each language in its own way."""
        shape, first = self.expected()
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", said)]
        self.assertEqual(numbers[:2], shape, said)
        self.assertAlmostEqual(numbers[2], first, places=4, msg=said)

    def test_grpcurl(self):
        self.need("grpcurl")
        said = run(["bash", "-ec", self.grpcurl_commands()])
        self.assertIn("attention.v1.AttentionService", said)
        self.assertEqual(said.count('"computeNs"'), 2, said)

    def test_go(self):
        self.need("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc")
        source = program("Go", "go").replace("127.0.0.1:8001", self.address)
        library = pathlib.Path(GOPATH, "src/google.golang.org/grpc")
        if not library.exists():
            self.skipTest(f"not installed: gRPC for Go in {GOPATH}")
        if "func NewClient(" not in (library / "clientconn.go").read_text():
            source = with_names_of_1_33(source)
        work = self.folder / "src/ask"
        work.mkdir(parents=True)
        (work / "main.go").write_text(source)
        ((_, commands), *_) = blocks("Go")
        protoc = re.search(r"^protoc .*?(?<!\\)$", commands, re.MULTILINE | re.DOTALL)[0].replace("-I proto", f"-I {REPOSITORY}/proto")
        environment = {**os.environ, "GOPATH": f"{self.folder}:{GOPATH}", "GO111MODULE": "off", "GOCACHE": str(self.folder / "cache")}
        run(["bash", "-ec", protoc], cwd=work, env=environment)
        self.check(run(["go", "run", "."], cwd=work, env=environment))

    def test_java(self):
        self.need("javac", "java", "protoc", "grpc_java_plugin")
        jars = [str(jar) for name in JARS for jar in JAVA.glob(f"{name}.jar")]
        if not any("grpc-netty" in jar for jar in jars):
            self.skipTest(f"not installed: gRPC for Java in {JAVA}")
        (self.folder / "Ask.java").write_text(program("Java", "java").replace("127.0.0.1:8001", self.address))
        (self.folder / "gen").mkdir()
        (self.folder / "classes").mkdir()
        (commands,) = [text for name, text in blocks("Java") if not name]
        environment = {**os.environ, "CLASSPATH": ":".join(jars)}
        self.check(run(["bash", "-ec", commands], cwd=self.folder, env=environment))

    def test_rust(self):
        self.skipTest("its crates come from the network, and Debian does not have all of them")


if __name__ == "__main__":
    result = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2, exit=False).result
    for _, reason in result.skipped:
        print(f"skipped {' '.join(sys.argv[2:])}: {reason}")
    sys.exit(77 if result.wasSuccessful() and result.skipped else not result.wasSuccessful())
