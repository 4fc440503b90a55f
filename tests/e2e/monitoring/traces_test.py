#!/usr/bin/env python3
"""A request's trace, from the caller's traceparent through the server to a collector, and into the log.

usage: traces_test.py BIN_FOLDER
"""

import http.server
import json
import sys
import threading

from live_server import LiveServer

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
STATE = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"


class Collector(http.server.BaseHTTPRequestHandler):
    spans = []

    def do_POST(self):
        assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.spans += [span for resource in body["resourceSpans"] for scope in resource["scopeSpans"]
                       for span in scope["spans"]]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def attributes(span):
    return {entry["key"]: next(iter(entry["value"].values())) for entry in span["attributes"]}


def check_spans(spans):
    server = next(span for span in spans if span.get("parentSpanId") == PARENT)
    assert server["traceId"] == TRACE and server["name"] == "attention.v1.AttentionService/Attend", server
    assert attributes(server)["attend.model"] == "demo" and attributes(server)["attend.tokens"] == "10", server
    assert server["traceState"] == STATE, server
    phases = {span["name"]: span for span in spans if span.get("parentSpanId") == server["spanId"]}
    assert set(phases) == {"receive", "queue", "compute", "send"}, phases
    last = int(server["startTimeUnixNano"])
    for name in ("receive", "queue", "compute", "send"):
        begin, end = int(phases[name]["startTimeUnixNano"]), int(phases[name]["endTimeUnixNano"])
        assert last <= begin <= end <= int(server["endTimeUnixNano"]), f"{name}: {last} {begin} {end}"
        last = end
    return server


def check_log(log, server):
    lines = [json.loads(line) for line in log.splitlines()]
    line = next(line for line in lines if line.get("trace_id") == TRACE)
    assert line["message"] == "request" and line["span_id"] == server["spanId"], line
    assert line["request_id"] == attributes(server)["attend.request_id"], line


def check_addresses(server):
    """What is printed is JSON where the log is."""
    lines = [json.loads(line) for line in server.printed]
    assert [line["address"] for line in lines] == [server.address, server.admin, server.metrics], lines
    assert lines[0]["message"] == f"attend-server listening on {server.address}" and lines[0]["level"] == "info", lines


def main():
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    flags = [f"--otlp-endpoint=http://127.0.0.1:{collector.server_port}", "--log-format=json", "--log-requests=all"]
    with LiveServer(sys.argv[1], flags) as server:
        server.attend("run", "--model=demo", "--random=2x5x512", f"--metadata=traceparent=00-{TRACE}-{PARENT}-01",
                      *(f"--metadata=tracestate={state}" for state in STATE.split(",")))
        server.attend("run", "--model=demo", "--random=2x5x512", f"--metadata=traceparent=00-{TRACE}-{PARENT[::-1]}-00")
        server.stop()  # what waits is sent first
        log = server.log()
        check_addresses(server)
    collector.shutdown()
    assert all(span.get("parentSpanId") != PARENT[::-1] for span in Collector.spans), "a trace that is not sampled was sent"
    check_log(log, check_spans(Collector.spans))
    print(f"{len(Collector.spans)} spans of one trace")


if __name__ == "__main__":
    main()
