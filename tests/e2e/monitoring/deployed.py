"""What deploy/prometheus and deploy/grafana say."""

import json
import re
import subprocess


def alerts(deploy):
    """The expression of each alert, by name. promtool reads the YAML, so that this need not."""
    text = (deploy / "prometheus/alerts.yaml").read_text()
    blocks = re.findall(r"- alert: (\w+)\n(.*?)(?=\n {6}- alert|\Z)", text, re.DOTALL)
    assert len(blocks) == text.count("alert:"), "alerts.yaml is laid out in another way than this test reads it"
    for name, body in blocks:
        for key in ("severity:", "summary:", "description:", "runbook:", "runbook_url:"):
            assert key in body, f"{name} has no {key}"
    expressions = {name: re.search(r"expr: (?:>-\n)?(.*?)\n {8}(?:for|labels):", body, re.DOTALL)[1] for name, body in blocks}
    assert len(expressions) == len(blocks), "two alerts have the same name"
    return {name: re.sub(r"\s+", " ", expression) for name, expression in expressions.items()}


def dashboard_expressions(deploy):
    """Of all panels and variables, with the variables filled in as Grafana would."""
    dashboard = json.loads((deploy / "grafana/attend.json").read_text())
    targets = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    variables = [variable["definition"] for variable in dashboard["templating"]["list"] if "definition" in variable]
    for name, value in (("$__rate_interval", "5m"), ("$job", ".*"), ("$instance", ".*"), ("$model", ".*")):
        targets = [expression.replace(name, value) for expression in targets]
    left = [expression for expression in targets if "$" in expression]
    assert not left, f"unknown variables: {left}"
    return targets, variables


def used_names(expression):
    """The series that an expression is about."""
    without_text = re.sub(r'"[^"]*"', '""', expression)
    return set(re.findall(r"\b(?:attend|process)_[a-z0-9_]+", without_text))


def run(*command, text=None):
    """Runs a program that has to succeed."""
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200)
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout}"
