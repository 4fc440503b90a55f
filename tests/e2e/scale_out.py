#!/usr/bin/env python3
"""Three servers under load: one by one they are killed and come back, then replaced as in an upgrade.

Done three times: the client has the list of servers; the client has nginx before them; the client has
a name whose addresses change, as those of a headless Service do, since what is replaced comes back
elsewhere. Prints what was asked and what came of it; exits 1 when a request failed, which the client's
retries should have prevented. Needs nobody's rights and no port: servers choose theirs, nginx has a
socket. The name is answered by Debian's python3-dnslib.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import dnslib
import dnslib.server

PATIENCE_S = 300
CONCURRENCY = 6  # so that each server is at some request whenever it ends
PAUSE_S = 0.4  # of load between two disturbances
# Between two replacements: more than the 2 s after which the client looks a name up again (minReadySeconds in Kubernetes).
NAME_PAUSE_S = 2.5

NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{}}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream attend {{
    {servers}
    keepalive 16;
  }}
  server {{
    listen unix:{folder}/nginx.sock http2;
    client_max_body_size 0;
    # What may be sent twice only the client knows: nginx asks the next server when none was asked yet.
    location / {{
      grpc_pass grpc://attend;
      error_page 502 504 = @unavailable;
    }}
    location @unavailable {{
      internal;
      default_type application/grpc;
      add_header grpc-status 14 always;
      add_header grpc-message "no server answered" always;
      return 204;
    }}
  }}
}}
"""


def wait_until(what, condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"expected {what} within {PATIENCE_S} s")
        time.sleep(0.02)


class Server:
    """One attend-server, which keeps its port when it is started again."""

    def __init__(self, program, folder, name, address="127.0.0.1:0"):
        self.program, self.folder, self.log = program, folder, folder / f"{name}.log"
        self.address = address
        self.start()

    def start(self):
        out = self.log.with_suffix(".out")
        with out.open("w") as stdout, self.log.open("a") as stderr:
            self.process = subprocess.Popen(
                [self.program, f"--listen={self.address}", "--threads=1"],
                env={**os.environ, "ATTEND_ADMIN_LISTEN": "none", "ATTEND_METRICS_LISTEN": "none"},
                stdout=stdout, stderr=stderr)
        wait_until(f"{self.program} to listen", lambda: "\n" in out.read_text())
        self.address = re.search(r"listening on (\S+)", out.read_text()).group(1)

    def end(self, how):
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        if how == signal.SIGTERM and code != 0:
            raise RuntimeError(f"{self.address}: expected exit code 0 after SIGTERM, found {code}")


class Name(dnslib.server.BaseResolver):
    """A DNS server on loopback that knows one name: attend.test, of the servers that it has been told of."""

    def __init__(self):
        self.hosts = []
        self.server = dnslib.server.DNSServer(self, address="127.0.0.1", port=0,
                                              logger=dnslib.server.DNSLogger("-request,-reply,-truncated,-error"))
        self.server.start_thread()
        self.port = self.server.server.server_address[1]

    def resolve(self, request, _):
        reply = request.reply()
        if request.q.qtype == dnslib.QTYPE.A:
            for host in self.hosts:
                reply.add_answer(dnslib.RR(request.q.qname, dnslib.QTYPE.A, rdata=dnslib.A(host), ttl=5))
        return reply

    def tell(self, servers):
        self.hosts = [one.address.rsplit(":", 1)[0] for one in servers]

    def end(self):
        self.server.stop()


class Nginx:
    """Balances over the servers on a socket in `folder`."""

    def __init__(self, program, folder, servers):
        config = folder / "nginx.conf"
        config.write_text(NGINX.format(
            folder=folder,
            servers="\n    ".join(f"server {one.address} max_fails=0;" for one in servers)))
        self.address = f"unix:{folder}/nginx.sock"
        self.process = subprocess.Popen([program, "-e", folder / "nginx.log", "-c", config])
        wait_until("nginx to listen", (folder / "nginx.sock").exists)

    def end(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)


def restart(servers):
    """Ends all one by one, first without a word, then as it should be; each comes back at once."""
    for how in (signal.SIGKILL, signal.SIGTERM):
        for server in servers:
            time.sleep(PAUSE_S)
            server.end(how)
            server.start()
    time.sleep(PAUSE_S)


def replace(servers, name):
    """Ends all one by one as `restart`; each comes back at another address, which the name learns."""
    for how in (signal.SIGKILL, signal.SIGTERM):
        for i, old in enumerate(servers):
            time.sleep(NAME_PAUSE_S)
            if how == signal.SIGKILL:
                old.end(how)
            host, port = old.address.rsplit(":", 1)
            last = int(host.rsplit(".", 1)[1])
            servers[i] = Server(old.program, old.folder, f"server{last + 3}", f"127.0.0.{last + 3}:{port}")
            name.tell(servers)
            if how == signal.SIGTERM:
                time.sleep(PAUSE_S)  # a preStop hook
                old.end(how)
    time.sleep(NAME_PAUSE_S)


def load(attend, address, disturb, folder):
    """What `attend bench` says of a load during which the servers come and go, and its retries."""
    result, log_path = folder / "load.json", folder / "load.log"
    result.unlink(missing_ok=True)
    with log_path.open("w") as log:
        bench = subprocess.Popen(
            [attend, "bench", f"--server={address}", "--retries", f"--concurrency={CONCURRENCY}",
             "--duration=10m", "--warmup=0s", f"--timeout={PATIENCE_S}s", "--shape=1x64x512",
             "--verify-sample=0", f"--json={result}"],
            # Only there gRPC tells of its retries.
            env={**os.environ, "GRPC_TRACE": "retry", "GRPC_VERBOSITY": "INFO"},
            stdout=log, stderr=log)
        try:
            wait_until("a load", lambda: "measuring" in log_path.read_text() or bench.poll() is not None)
            disturb()
            bench.send_signal(signal.SIGINT)
            bench.wait(PATIENCE_S)
        finally:
            if bench.poll() is None:
                bench.kill()
    if not result.exists():
        raise RuntimeError(log_path.read_text()[-2000:])
    return json.loads(result.read_text()), log_path.read_text().count("retrying failed call in")


def report(name, result, retries):
    failed = sum(result["errors"].values())
    print(f"{name:6} {result['answers']:6} answers {failed:5} failed {retries:5} retries   "
          f"p50 {result['latency_ms']['p50']:.1f} ms, longest wait {result['latency_ms']['max']:.1f} ms")
    for code, text in result["error_texts"].items():
        print(f"{name}: {result['errors'][code]} times {code}: {text}")
    return failed == 0 and result["answers"] > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attend", required=True)
    parser.add_argument("--attend-server", required=True)
    parser.add_argument("--nginx", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="attend-scale-out-") as place:
        folder = pathlib.Path(place)
        servers, nginx, name = [], None, None
        try:
            port = 0
            for i in range(1, 4):
                servers.append(Server(arguments.attend_server, folder, f"server{i}", f"127.0.0.{i}:{port}"))
                port = servers[0].address.rsplit(":", 1)[1]
            nginx, name = Nginx(arguments.nginx, folder, servers), Name()
            name.tell(servers)
            good, all_retries = True, 0
            for way, address, disturb in (
                    ("list", ",".join(one.address for one in servers), lambda: restart(servers)),
                    ("nginx", nginx.address, lambda: restart(servers)),
                    ("name", f"dns://127.0.0.1:{name.port}/attend.test:{port}", lambda: replace(servers, name))):
                result, retries = load(arguments.attend, address, disturb, folder)
                good = report(way, result, retries) and good
                all_retries += retries
            if all_retries == 0:
                print("expected that some request was under way on a server that ended, found none")
            return 0 if good and all_retries > 0 else 1
        finally:
            for server in servers:
                server.process.kill()
                server.process.wait()
            for helper in (nginx, name):
                if helper is not None:
                    helper.end()


if __name__ == "__main__":
    sys.exit(main())
