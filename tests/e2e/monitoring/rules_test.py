#!/usr/bin/env python3
"""deploy/prometheus and deploy/grafana use only what a live server says, and Prometheus takes it all.

usage: rules_test.py BIN_FOLDER DEPLOY_FOLDER PROMTOOL PROMETHEUS
"""

import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import alert_cases
import deployed
from live_server import LiveServer

# Panels and alerts about what a healthy server of a test does not have.
MAY_BE_EMPTY = re.compile(r"UNAUTHENTICATED|first_block")


def names_of(page):
    """Names of all series: those of samples, not of families."""
    return {re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line)[0] for line in page.splitlines() if line and line[0] != "#"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Prometheus:
    """Debian's, with the configuration of deploy/prometheus pointed at a live server, and no alert that waits before it fires."""

    def __init__(self, program, deploy, target):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        rules = (deploy / "prometheus/alerts.yaml").read_text()
        (folder / "alerts.yaml").write_text(re.sub(r"\bfor: \w+", "for: 0s", rules))
        text = (deploy / "prometheus/prometheus.yml").read_text()
        assert '"attend:8002"' in text and "15s" in text
        (folder / "prometheus.yml").write_text(text.replace('"attend:8002"', f'"{target}"').replace("15s", "1s"))
        self._address = f"127.0.0.1:{free_port()}"
        self._log = open(folder / "log", "w+")
        self._process = subprocess.Popen(
            [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={self._address}"], stdout=self._log, stderr=self._log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(timeout=300)
        self._log.close()
        self._folder.cleanup()

    def api(self, path, **parameters):
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=300) as answer:
            return json.load(answer)["data"]

    def query(self, expression):
        try:
            return self.api("query", query=expression)["result"]
        except urllib.error.HTTPError as error:
            if error.code != 400:  # it is not ready yet
                raise
            raise AssertionError(f"{expression}: {error.read().decode()}") from error

    def alerts(self):
        return self.api("rules")["groups"][0]["rules"]

    def await_that(self, what, ask, wanted):
        """Asks until the answer is as wanted, for at least five minutes."""
        found = None
        for _ in range(1500):
            try:
                found = ask()
                if wanted(found):
                    return found
            except (urllib.error.URLError, ConnectionError):  # not there yet
                pass
            time.sleep(0.2)
        self._log.seek(0)
        raise AssertionError(f"{what}: {found}\n{self._log.read()[-3000:]}")

    def await_result(self, expression, wanted):
        return self.await_that(expression, lambda: self.query(expression), wanted)


def is_quiet(rule):
    """Throttling is the whole control group's: where that has a quota, what else runs there can use it up."""
    return rule["state"] == "inactive" or rule["name"] == "AttendThrottled"


def check_alerts(prometheus, server):
    """None is active of a healthy server; that it has ended, one says."""
    rules = prometheus.await_that("all rules are evaluated, and none fires of a healthy server", prometheus.alerts,
                                  lambda rules: all(rule["health"] == "ok" and is_quiet(rule) for rule in rules))
    server.stop()
    prometheus.await_that("AttendDown fires", prometheus.alerts,
                          lambda rules: "AttendDown" in [rule["name"] for rule in rules if rule["state"] == "firing"])
    return [rule["name"] for rule in rules]


def check_prometheus(program, deploy, server, expressions):
    with Prometheus(program, deploy, server.metrics) as prometheus:
        prometheus.await_result('up{job="attend"}', lambda result: [r["value"][1] for r in result] == ["1"])
        # A rate needs two scrapes with something between them.
        server.ask_for_everything()
        prometheus.await_result("count_over_time(attend_ready[1m]) > 3", bool)
        for expression in expressions:
            if not prometheus.query(expression):
                assert MAY_BE_EMPTY.search(expression), f"a panel shows nothing: {expression}"
        return check_alerts(prometheus, server)


def check_configuration(promtool, deploy):
    """As it is, and with the lines that name an Alertmanager."""
    path = deploy / "prometheus/prometheus.yml"
    deployed.run(promtool, "check", "config", path)
    text = path.read_text().replace("alerts.yaml", str(deploy.resolve() / "prometheus/alerts.yaml"))
    named = re.sub(r"^# ?(?=alerting:|  )", "", text, flags=re.MULTILINE)
    assert "\nalerting:\n" in named, "prometheus.yml does not show how an Alertmanager is named"
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(named)
        file.flush()
        deployed.run(promtool, "check", "config", file.name)


def check_runbook(deploy, alerts):
    rows = re.findall(r"^\| (Attend\w+) \|", (deploy / "README.md").read_text(), re.MULTILINE)
    assert rows == list(alerts), f"deploy/README.md has the alerts {rows}, alerts.yaml {list(alerts)}"


def main():
    folder, deploy, promtool, program = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    deployed.run(promtool, "check", "rules", deploy / "prometheus/alerts.yaml")
    check_configuration(promtool, deploy)
    alerts = deployed.alerts(deploy)
    panels, variables = deployed.dashboard_expressions(deploy)
    check_runbook(deploy, alerts)
    with LiveServer(folder) as server:
        server.ask_for_everything()
        page = server.page()
        deployed.run(promtool, "check", "metrics", text=page)
        there = names_of(page)
        for expression in [*alerts.values(), *panels, *variables, *alert_cases.HEALTHY]:
            missing = deployed.used_names(expression) - there
            assert not missing, f"no live server says {missing}, which is used in: {expression}"
        known = check_prometheus(program, deploy, server, panels)
        assert known == list(alerts), f"expected the alerts {list(alerts)}, Prometheus has {known}"
    print(f"{len(there)} names of series, {len(panels)} panel queries, {len(alerts)} alerts")


if __name__ == "__main__":
    main()
