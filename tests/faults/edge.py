"""deploy/edge before a server, as it is shipped: start.sh with its template, on a free port of loopback."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

from harness import PATIENCE_S, SOURCE, eventually

TLS = SOURCE / "tests/data/tls"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Edge:
    """The proxy of a server; ends with the block it is made for."""

    def __init__(self, server, directives="", **variables):
        """`directives` are added to the configuration."""
        self.address, self.ca_file = f"127.0.0.1:{variables.get('EDGE_LISTEN') or free_port()}", str(TLS / "ca.pem")
        self._folder = tempfile.TemporaryDirectory()
        self._log = pathlib.Path(self._folder.name) / "log"
        settings = {"EDGE_LISTEN": self.address, "EDGE_SERVER": server.address, "EDGE_CERTIFICATE": TLS / "server.pem",
                    "EDGE_KEY": TLS / "server.key", "EDGE_FOLDER": self._folder.name,
                    "EDGE_NGINX": os.environ.get("ATTEND_NGINX", "nginx"), **variables}
        start = shutil.copy(SOURCE / "deploy/edge/start.sh", self._folder.name)
        template = (SOURCE / "deploy/edge/nginx.conf.template").read_text()
        (pathlib.Path(self._folder.name) / "nginx.conf.template").write_text(
            template.replace("http {", "http {\n" + directives, 1))
        with self._log.open("w") as log:
            self._process = subprocess.Popen([start], stderr=log, stdin=subprocess.DEVNULL,
                                             env={**os.environ, **{name: str(value) for name, value in settings.items()}})
        eventually("the edge listens", self._is_listening)

    def _is_listening(self):
        assert self._process.poll() is None, f"the edge did not start: {self.log()}"
        host, port = self.address.split(":")
        try:
            socket.create_connection((host, int(port))).close()
        except ConnectionRefusedError:
            return False
        return True

    def log(self):
        return self._log.read_text()

    def pids(self):
        """nginx and its workers."""
        children = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [self._process.pid, *map(int, children.split())]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._folder.cleanup()
