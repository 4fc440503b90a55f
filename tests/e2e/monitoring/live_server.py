"""A server of its own for a test, and what is asked of it."""

import pathlib
import re
import subprocess
import tempfile
import urllib.request


CERTIFICATES = pathlib.Path(__file__).parents[2] / "data" / "tls"


class LiveServer:
    """attend-server on free ports of the loopback interface, with TLS, from `with` to its end."""

    def __init__(self, folder, flags=()):
        self._folder = folder
        self._log = tempfile.TemporaryFile(mode="w+")
        self.printed = []  # lines of standard output
        self._process = subprocess.Popen(
            [f"{folder}/attend-server", "--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0",
             f"--tls-certificate={CERTIFICATES}/server.pem", f"--tls-key={CERTIFICATES}/server.key", "--threads=1", *flags],
            stdout=subprocess.PIPE, stderr=self._log, text=True)
        self.address = self._await("listening")
        self.admin = self._await("admin")
        self.metrics = self._await("metrics")

    def _await(self, what):
        for line in self._process.stdout:
            self.printed.append(line)
            found = re.search(rf'attend-server {what} on ([^"\n]+)', line)
            if found:
                return found[1]
        raise SystemExit(f"the server ended before it was {what}: {self.log()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends the server as an operator would, once."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(timeout=300)

    def log(self):
        self._log.seek(0)
        return self._log.read()

    def attend(self, *arguments, check=True):
        """Runs a subcommand of `attend` against the server."""
        command, *rest = arguments
        server = self.admin if command == "log-level" else self.address
        return subprocess.run([f"{self._folder}/attend", command, f"--server={server}", "--tls", f"--ca={CERTIFICATES}/ca.pem", *rest],
                              check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)

    def ask_for_everything(self):
        """One request of each kind, so that every series there can be is there."""
        for flags in (["--model=demo", "--random=2x5x512"], ["--model=demo", "--random=1x3x512", "--stream"]):
            self.attend("run", *flags)
        self.attend("run", "--model=nowhere", "--random=1x3x512", check=False)

    def page(self):
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=300) as answer:
            return answer.read().decode()
