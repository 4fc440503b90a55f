"""The image's default command warns of plaintext first, and its health check follows the server's configuration, TLS included;
without an image: with the commands that the Dockerfile gives.

image_test.py SOURCE BIN: BIN is the folder of attend-server and attend.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BIN = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
TIMEOUT = 300
DOCKERFILE = (SOURCE / "Dockerfile").read_text().replace("\\\n", " ")
VARIABLES = dict(re.findall(r"^ENV (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))
CHECK = re.search(r"^HEALTHCHECK .* CMD (.*)$", DOCKERFILE, re.MULTILINE)[1]
COMMAND = json.loads(re.search(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[1])


class Server:
    """attend-server as in the image, on free ports; `addresses` has where it listens, by name."""

    def __init__(self, *flags):
        self.variables = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "ATTEND_ADMIN_LISTEN": "none"}
        self.variables.update({name: re.sub(r":\d+$", ":0", value) for name, value in VARIABLES.items()})
        command = ["attend-server", *(re.sub(r":\d+$", ":0", flag) for flag in flags)]
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, env=self.variables, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.addresses = {}
        while "health" not in self.addresses:
            line = self.process.stdout.readline()
            assert line, self.end()
            self.addresses.update([re.fullmatch(r"attend-server (\w+) on (\S+)\n", line).groups()])

    def is_healthy(self):
        variables = {**self.variables, "ATTEND_HEALTH_LISTEN": self.addresses["health"]}
        return subprocess.run(["sh", "-c", CHECK], env=variables, timeout=TIMEOUT, capture_output=True).returncode == 0

    def end(self):
        """Returns the lines of the log."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with self.log:
            self.log.seek(0)
            return self.log.read().splitlines()


class Image(unittest.TestCase):
    def test_the_first_line_of_the_default_command_says_plaintext_and_what_to_give_for_tls(self):
        server = Server(*COMMAND)
        self.assertTrue(server.is_healthy())
        first = server.end()[0]
        for words in ("plaintext", "--tls-certificate", "--tls-key"):
            self.assertIn(words, first)
        self.assertFalse(server.is_healthy(), "it has ended")

    def test_the_health_check_works_with_tls(self):
        tls = SOURCE / "tests/data/tls"
        server = Server("--listen=0.0.0.0:8001", f"--tls-certificate={tls / 'server.pem'}", f"--tls-key={tls / 'server.key'}")
        self.assertTrue(server.is_healthy())
        self.assertNotIn("plaintext", server.end()[0])

    def test_a_file_cannot_turn_off_what_the_health_check_asks(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"listen": ["127.0.0.1:0"], "metrics_listen": "none", "health_listen": "none"}, file)
            file.flush()
            server = Server(f"--config={file.name}")
        self.assertTrue(server.is_healthy())
        server.end()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
