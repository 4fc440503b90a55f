#!/usr/bin/env python3
"""deploy/prometheus and deploy/grafana use only what a live server says, and Prometheus takes it all.

usage: rules_test.py BIN_FOLDER DEPLOY_FOLDER PROMTOOL PROMETHEUS
"""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from live_server import LiveServer

# Panels and alerts about what a healthy server of a test does not have.
MAY_BE_EMPTY = re.compile(r"UNAUTHENTICATED|first_block")


def names_of(page):
    """Names of all series: those of samples, not of families."""
    return {re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line)[0] for line in page.splitlines() if line and line[0] != "#"}


def dashboard_expressions(path):
    """Of all panels and variables, with the variables filled in as Grafana would."""
    dashboard = json.loads(path.read_text())
    targets = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    variables = [variable["definition"] for variable in dashboard["templating"]["list"] if "definition" in variable]
    for name, value in (("$__rate_interval", "5m"), ("$job", ".*"), ("$instance", ".*"), ("$model", ".*")):
        targets = [expression.replace(name, value) for expression in targets]
    left = [expression for expression in targets if "$" in expression]
    assert not left, f"unknown variables: {left}"
    return targets, variables


def alert_expressions(path):
    """By promtool, which reads YAML so that this need not."""
    text = path.read_text()
    blocks = re.findall(r"- alert: (\w+)\n(.*?)(?=\n {6}- alert|\Z)", text, re.DOTALL)
    assert len(blocks) == text.count("alert:"), "alerts.yaml is laid out in another way than this test reads it"
    for name, body in blocks:
        for key in ("severity:", "summary:", "description:", "runbook:"):
            assert key in body, f"{name} has no {key}"
    expressions = [re.search(r"expr: (?:>-\n)?(.*?)\n {8}(?:for|labels):", body, re.DOTALL)[1] for _, body in blocks]
    return [name for name, _ in blocks], [re.sub(r"\s+", " ", expression) for expression in expressions]


def used_names(expression):
    without_text = re.sub(r'"[^"]*"', '""', expression)
    return set(re.findall(r"\b(?:attend|process)_[a-z0-9_]+", without_text))


def run(*command, text=None):
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout}"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Prometheus:
    """Debian's, with the configuration of deploy/prometheus pointed at a live server."""

    def __init__(self, program, deploy, target):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        shutil.copy(deploy / "prometheus/alerts.yaml", folder)
        text = (deploy / "prometheus/prometheus.yml").read_text()
        assert "127.0.0.1:8002" in text and "15s" in text
        (folder / "prometheus.yml").write_text(text.replace("127.0.0.1:8002", target).replace("15s", "1s"))
        self._address = f"127.0.0.1:{free_port()}"
        self._log = open(folder / "log", "w+")
        self._process = subprocess.Popen(
            [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={self._address}"], stdout=self._log, stderr=self._log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(timeout=20)
        self._log.close()
        self._folder.cleanup()

    def api(self, path, **parameters):
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression):
        try:
            return self.api("query", query=expression)["result"]
        except urllib.error.HTTPError as error:
            if error.code != 400:  # it is not ready yet
                raise
            raise AssertionError(f"{expression}: {error.read().decode()}") from error

    def await_result(self, expression, wanted):
        """Asks until the result is as wanted, for half a minute."""
        found = None
        for _ in range(150):
            try:
                found = self.query(expression)
                if wanted(found):
                    return
            except (urllib.error.URLError, ConnectionError):  # not there yet
                pass
            time.sleep(0.2)
        self._log.seek(0)
        raise AssertionError(f"{expression}: {found}\n{self._log.read()[-3000:]}")


def check_prometheus(program, deploy, server, expressions):
    with Prometheus(program, deploy, server.metrics) as prometheus:
        prometheus.await_result('up{job="attend"}', lambda result: [r["value"][1] for r in result] == ["1"])
        # A rate needs two scrapes with something between them.
        server.ask_for_everything()
        prometheus.await_result("count_over_time(attend_ready[1m]) > 3", bool)
        for expression in expressions:
            if not prometheus.query(expression):
                assert MAY_BE_EMPTY.search(expression), f"a panel shows nothing: {expression}"
        rules = prometheus.api("rules")["groups"][0]["rules"]
        for rule in rules:
            assert rule["health"] in ("ok", "unknown"), f"{rule['name']}: {rule}"
            assert rule["state"] != "firing", f"{rule['name']} fires of a healthy server: {rule}"
        return [rule["name"] for rule in rules]


def main():
    folder, deploy, promtool, program = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    run(promtool, "check", "rules", deploy / "prometheus/alerts.yaml")
    run(promtool, "check", "config", deploy / "prometheus/prometheus.yml")
    alerts, conditions = alert_expressions(deploy / "prometheus/alerts.yaml")
    panels, variables = dashboard_expressions(deploy / "grafana/attend.json")
    runbook = (deploy / "README.md").read_text()
    for alert in alerts:
        assert f"| {alert} |" in runbook, f"deploy/README.md says nothing of {alert}"
    with LiveServer(folder) as server:
        server.ask_for_everything()
        page = server.page()
        run(promtool, "check", "metrics", text=page)
        there = names_of(page)
        for expression in conditions + panels + variables:
            missing = used_names(expression) - there
            assert not missing, f"no live server says {missing}, which is used in: {expression}"
        known = check_prometheus(program, deploy, server, panels)
        assert known == alerts, f"expected the alerts {alerts}, Prometheus has {known}"
    print(f"{len(there)} names of series, {len(panels)} panel queries, {len(alerts)} alerts")


if __name__ == "__main__":
    main()
