"""What --print-config-schema says of configuration files is what the server says of them.

usage: configuration_schema_test.py SOURCE_FOLDER ATTEND_SERVER
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

WRONG = {
    "an unknown key": {"thread": 1},
    "a text for a number": {"threads": "many"},
    "too small a number": {"threads": -1},
    "too large a number": {"threads": 10**9},
    "no choice": {"log_format": "xml"},
    "a number for a switch": {"insecure": 1},
    "a share beyond one": {"otlp_endpoint": "http://localhost:4318", "trace_sample_ratio": 1.5},
    "a text in a list of addresses that is none": {"listen": [8001]},
    "a list for one value": {"models": ["a", "b"]},
    "a switch for a duration": {"grace_period": True},
    "less than no time": {"grace_period": -1},
    "more than a day": {"grace_period": 1e6},
    "an empty path": {"tokens": ""},
    "half a thread": {"threads": 1.5},
    "half a byte": {"max_queue_bytes": 0.5},
    "a size with another unit": {"max_queue_bytes": "2GiB/s"},
    "a size with a space": {"max_queue_bytes": "2 Gi"},
    "a size with a sign": {"max_queue_bytes": "-2Gi"},
    "a size of no byte": {"max_queue_bytes": 0},
    "a unit for a count": {"max_queue_requests": "2K"},
}
RIGHT = {
    "nothing": {},
    "its own schema": {"$schema": "./attend.schema.json"},
    "a whole number with a fraction of none": {"threads": 4.0},
    "null": {"threads": None},
    "one address, not in a list": {"listen": "127.0.0.1:0"},
    "a duration in seconds": {"grace_period": 2.5},
    "a duration as text": {"grace_period": "1m30s"},
    "a size in bytes": {"max_queue_bytes": 500000000},
    "a size as text": {"max_queue_bytes": "500000000", "max_cache_bytes": "2Gi", "max_reply_bytes": "500MB"},
    "a share": {"otlp_endpoint": "http://localhost:4318", "trace_sample_ratio": 0.5},
}


def printed(server, *flags):
    return subprocess.run([server, *flags], check=True, capture_output=True, text=True, timeout=300).stdout


def server_reads(server, configuration):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(configuration, file)
        file.flush()
        done = subprocess.run([server, f"--config={file.name}", "--print-config"], capture_output=True, text=True, timeout=300)
    return done.returncode == 0


def main():
    source, server = pathlib.Path(sys.argv[1]), sys.argv[2]
    schema = json.loads(printed(server, "--print-config-schema"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(json.loads(printed(server, "--print-config")))
    for what, configurations, is_right in (("right", RIGHT, True), ("wrong", WRONG, False)):
        for name, configuration in configurations.items():
            assert validator.is_valid(configuration) == is_right, f"{name}: the schema does not say {what}"
            assert server_reads(server, configuration) == is_right, f"{name}: the server does not say {what}"
    deployed = [path for path in (source / "deploy").rglob("attend.json") if "grafana" not in path.parts]
    assert deployed
    for path in deployed:
        validator.validate(json.loads(path.read_text()))
    print(f"{len(RIGHT) + len(WRONG)} configurations, {len(deployed)} deployed ones")


if __name__ == "__main__":
    main()
