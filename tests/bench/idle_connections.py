#!/usr/bin/python3
"""What idle connections cost a server: memory and processor time of --number open HTTP/2 connections that ask nothing.

  idle_connections.py PID HOST:PORT [--number 10000] [--ca CA.pem]     e.g. $(pidof attend-server) 127.0.0.1:8001

With --ca they speak TLS and verify the certificate for the name localhost. The server needs as many open files (ulimit -n).
"""

import argparse
import pathlib
import resource
import socket
import ssl
import time

# What a client sends before anything else: the preface of HTTP/2 and empty settings; and the answer to the server's settings.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
SETTINGS_ACK = bytes([0, 0, 0, 4, 1, 0, 0, 0, 0])


def resident_mib(pid):
    return int(pathlib.Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def connect(address, context):
    wire = socket.create_connection(address, timeout=30)
    if context is not None:
        wire = context.wrap_socket(wire, server_hostname="localhost")
    wire.sendall(PREFACE)
    wire.recv(65536)
    wire.sendall(SETTINGS_ACK)
    return wire


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pid", type=int)
    parser.add_argument("address", help="HOST:PORT")
    parser.add_argument("--number", type=int, default=10_000)
    parser.add_argument("--ca", help="speak TLS; PEM file of the authority")
    options = parser.parse_args()
    host, port = options.address.rsplit(":", 1)
    context = None
    if options.ca:
        context = ssl.create_default_context(cafile=options.ca)
        context.set_alpn_protocols(["h2"])
    resource.setrlimit(resource.RLIMIT_NOFILE, (options.number + 100,) * 2)
    before = resident_mib(options.pid)
    wires = [connect((host, int(port)), context) for _ in range(options.number)]
    time.sleep(2)
    after, spent = resident_mib(options.pid), cpu_seconds(options.pid)
    time.sleep(5)
    spent = cpu_seconds(options.pid) - spent
    print(f"{len(wires)} idle connections{' with TLS' if context else ''}: {before:.0f} to {after:.0f} MiB, "
          f"{(after - before) * 1024 / len(wires):.1f} KiB each; {spent / 5:.1%} of a core")


if __name__ == "__main__":
    main()
