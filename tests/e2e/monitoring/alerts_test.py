#!/usr/bin/env python3
"""Every alert of deploy/prometheus fires in the situation it is for, and not in one like it (alert_cases.py).

usage: alerts_test.py DEPLOY_FOLDER PROMTOOL
"""

import json
import pathlib
import sys
import tempfile

import alert_cases
import deployed


def written(values):
    """As promtool reads values; a series that ends is marked, as Prometheus does when a scrape no longer has it."""
    words = []
    for before, value in zip([None, *values], values):
        words.append(str(value) if value is not None else "_" if before is None else "stale")
    return " ".join(words)


def unit_test(name, series, fires):
    """A test of promtool's: which alerts fire at which minutes."""
    expectations = [{"expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                     "eval_time": f"{minute}m",
                     "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts]}
                    for minute, alerts in fires.items()]
    return {"name": name, "interval": "15s", "promql_expr_test": expectations,
            "input_series": [{"series": key, "values": written(values)} for key, values in series.items()]}


def check_that_all_have_cases(alerts):
    firing = {alert for case in alert_cases.CASES for fires in case.fires.values() for alert in fires}
    quiet = {case.alert for case in alert_cases.CASES if not any(case.alert in fires for fires in case.fires.values())}
    for alert in alerts:
        assert alert in firing, f"{alert}: alert_cases.py has no situation in which it fires"
        assert alert in quiet, f"{alert}: alert_cases.py has no situation like its own in which it does not fire"
    unknown = (firing | quiet) - set(alerts)
    assert not unknown, f"alert_cases.py knows alerts that are not in alerts.yaml: {unknown}"


def main():
    deploy, promtool = pathlib.Path(sys.argv[1]), sys.argv[2]
    check_that_all_have_cases(deployed.alerts(deploy))
    tests = [unit_test("healthy", alert_cases.HEALTHY, {minute: [] for minute in range(1, 80)})]
    tests += [unit_test(f"{case.alert}: {case.situation}", {**alert_cases.HEALTHY, **case.series}, case.fires)
              for case in alert_cases.CASES]
    rules = deploy.resolve() / "prometheus/alerts.yaml"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:  # which is YAML, too
        json.dump({"rule_files": [str(rules)], "evaluation_interval": "15s", "tests": tests}, file)
        file.flush()
        deployed.run(promtool, "test", "rules", file.name)
    print(f"{len(tests)} situations")


if __name__ == "__main__":
    main()
