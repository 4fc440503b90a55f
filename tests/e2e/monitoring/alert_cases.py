"""What servers' metrics look like in situations, and which alerts fire of them then.

Each case is a healthy server but for what it says. Values are those of scrapes 15 s apart, None where there was none.
"""

import dataclasses

SCRAPES_A_MINUTE = 4
SCRAPES = 80 * SCRAPES_A_MINUTE + 1
BEGIN = 10  # minute at which a situation begins
DAY = 86400


@dataclasses.dataclass
class Case:
    """`fires` says of minutes which alerts fire then: these and no others."""

    alert: str
    situation: str
    series: dict
    fires: dict


def of(metric, instance="a:8002", **labels):
    """The series' name, as Prometheus writes it."""
    labels = {"instance": instance, "job": "attend", **labels}
    return metric + "{" + ",".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}"


def requests(code="OK", model="bert"):
    return of("attend_requests_total", model=model, rpc="Attend", code=code)


def info(model, version):
    return of("attend_model_info", model=model, version=version, type="bert", weights_dtype="fp32")


def steady(value):
    return [value] * SCRAPES


def growing(per_scrape, since=0):
    """A counter that stands at 0 until that minute."""
    return [per_scrape * max(0, i - since * SCRAPES_A_MINUTE) for i in range(SCRAPES)]


def repeated(*values):
    return [values[i % len(values)] for i in range(SCRAPES)]


def summed(increments):
    total, sums = 0, []
    for increment in increments:
        total += increment
        sums.append(total)
    return sums


def then(before, after, minute=BEGIN):
    return before[:minute * SCRAPES_A_MINUTE] + after[minute * SCRAPES_A_MINUTE:]


def at(minute, value, others=0):
    """One scrape apart from the others."""
    return [value if i == minute * SCRAPES_A_MINUTE else others for i in range(SCRAPES)]


def waits(fast, slow):
    """Requests a scrape that waited for less than half a second, and for 2 to 5 s."""
    counts = {"0.5": fast, "1": fast, "2": fast, "5": fast + slow, "+Inf": fast + slow}
    return {of("attend_queue_seconds_bucket", model="bert", rpc="Attend", code="OK", le=le): growing(count)
            for le, count in counts.items()}


HEALTHY = {
    of("up"): steady(1),
    of("process_start_time_seconds"): steady(-DAY),
    of("process_open_fds"): repeated(180, 220, 240),
    of("process_max_fds"): steady(65536),
    of("attend_ready"): steady(1),
    of("attend_draining"): steady(0),
    of("attend_compute_stalled"): steady(0),
    of("attend_models_failed"): steady(0),
    of("attend_all_models_served"): steady(1),
    info("bert", 1): steady(1),
    info("gpt2", 1): steady(1),
    requests("OK"): growing(1500),
    requests("NOT_FOUND", ""): growing(2),
    requests("CANCELLED"): growing(5),
    **{of("attend_refused_total", reason=reason): steady(0) for reason in ("limit", "queue_wait", "tenant_share", "unavailable")},
    of("attend_queued_work_seconds"): repeated(0.02, 0, 0.3, 0, 0.05),
    of("attend_queue_limit_seconds"): steady(5),
    of("attend_queued_bytes"): repeated(4e6, 0, 6e7, 0, 1e7),
    of("attend_queue_limit_bytes"): steady(2**30),
    of("attend_queued_requests"): repeated(3, 0, 40, 0, 8),
    of("attend_queue_limit_requests"): steady(8192),
    of("attend_reply_bytes"): repeated(2e6, 3e7, 0, 8e6),
    of("attend_reply_limit_bytes"): steady(2**29),
    **waits(fast=1500, slow=0),
    of("attend_running_requests"): repeated(4, 0, 2, 8, 6),
    of("attend_busy_seconds_total"): growing(9),
    of("attend_compute_threads"): steady(4),
    of("attend_cgroup_throttled_seconds_total"): growing(0.4),
    of("attend_session_cache_bytes"): repeated(3e8, 4e8, 5e8),
    of("attend_session_cache_limit_bytes"): steady(2**30),
    of("attend_connections_refused_total"): steady(0),
    of("attend_connections_turned_away_total"): steady(0),
    of("attend_connections_ended_total"): steady(0),
    of("attend_certificate_expiry_timestamp_seconds"): steady(60 * DAY),
    of("attend_credential_files_valid", flag="--tokens"): steady(1),
}
NOTHING = steady(None)


def gone(after=NOTHING, minute=BEGIN):
    """Every series of the server but `up`."""
    return {name: then(values, after, minute) for name, values in HEALTHY.items() if name != of("up")}


def begun_anew(every, down):
    """The process begins anew every so many minutes, and cannot be scraped for so many scrapes then."""
    every *= SCRAPES_A_MINUTE
    is_down = [i >= every and i % every < down for i in range(SCRAPES)]
    changes = {name: [None if off else value for off, value in zip(is_down, values)] for name, values in HEALTHY.items()}
    changes[of("up")] = [0 if off else 1 for off in is_down]
    changes[of("process_start_time_seconds")] = [None if off else i // every * 600 for i, off in enumerate(is_down)]
    return changes


# Shaped like the queue of a real server that was asked for too much, with --max-queue-wait=5s: by one tenant (between 0.23 and
# 0.81 of the limit, 0.78 in the middle), and by callers that name none (0.996 in the middle, down to 0.38).
ONE_TENANT = repeated(4.0, 3.9, 4.0, 3.9, 1.2, 4.0, 3.9, 4.0, 3.8, 2.4)
NO_TENANT = repeated(4.98, 4.99, 4.9, 1.9, 4.98, 4.97, 3.1, 4.99)


def overload(work, reason, refused):
    """So many requests a scrape are refused, and the others wait for seconds."""
    return {
        of("attend_queued_work_seconds"): then(HEALTHY[of("attend_queued_work_seconds")], work),
        of("attend_refused_total", reason=reason): growing(refused, since=BEGIN),
        requests("RESOURCE_EXHAUSTED"): then(NOTHING, growing(refused, since=BEGIN)),
        **waits(fast=100, slow=1400),
        of("attend_busy_seconds_total"): growing(14.9),
    }


def no_traffic():
    """Requests of all kinds end at the beginning of the situation."""
    end = BEGIN * SCRAPES_A_MINUTE
    return {name: [values[min(i, end)] for i in range(SCRAPES)] for name, values in HEALTHY.items() if "_total" in name}


SERVING = [
    Case("AttendDown", "the process has ended", {**gone(), of("up"): then(steady(1), steady(0))},
         {11: [], 13: ["AttendDown"], 40: ["AttendDown"]}),
    Case("AttendDown", "scrapes time out now and then", {of("up"): repeated(1, 1, 1, 1, 0)}, {30: []}),
    Case("AttendAbsent", "no server is left", {**gone(), of("up"): then(steady(1), NOTHING)}, {12: [], 22: ["AttendAbsent"]}),
    Case("AttendAbsent", "one of two servers is left",
         {**gone(), of("up"): then(steady(1), NOTHING), of("up", "b:8002"): steady(1)}, {22: []}),
    Case("AttendRestarting", "killed every fifteen minutes", begun_anew(every=15, down=3), {40: [], 50: ["AttendRestarting"]}),
    Case("AttendRestarting", "upgraded twice within an hour", begun_anew(every=25, down=2), {55: [], 70: []}),
    Case("AttendNotReady", "killed by its startup probe before its models are loaded",
         {**begun_anew(every=9, down=4), of("attend_ready"): repeated(*[0] * 32, *[None] * 4)},
         {9: [], 11: ["AttendNotReady"], 25: ["AttendNotReady"]}),
    Case("AttendNotReady", "nine minutes of loading, for which its probes wait",
         {of("attend_ready"): then(steady(0), steady(1), 9)}, {4: [], 8: [], 10: [], 12: []}),
    Case("AttendNotReady", "loads for eleven minutes", {of("attend_ready"): then(steady(0), steady(1), 11)},
         {9: [], 10: ["AttendNotReady"], 12: []}),
    Case("AttendNotReady", "stops serving, ten minutes beyond the range of five",
         {of("attend_ready"): then(steady(1), steady(0))}, {14: [], 24: [], 26: ["AttendNotReady"], 40: ["AttendNotReady"]}),
    Case("AttendNotReady", "drains for eighteen minutes, then ends",
         {**gone(minute=28), of("up"): then(steady(1), NOTHING, 28), of("up", "b:8002"): steady(1),
          of("attend_ready"): then(then(steady(1), steady(0)), NOTHING, 28),
          of("attend_draining"): then(then(steady(0), steady(1)), NOTHING, 28)}, {27: [], 29: [], 32: [], 34: []}),
    Case("AttendModelFailed", "a version fails, and is tried again all the time",
         {of("attend_models_failed"): then(steady(0), repeated(1, 1, 0, 1, 0))}, {12: [], 17: ["AttendModelFailed"]}),
    Case("AttendModelFailed", "half of a file was there", {of("attend_models_failed"): at(BEGIN, 1)}, {12: [], 15: [], 17: []}),
    Case("AttendModelsNeverServed", "begins with a model that cannot be loaded",
         {of("attend_all_models_served"): steady(0), of("attend_models_failed"): repeated(1, 1, 0, 1, 0)},
         {4: [], 7: ["AttendModelFailed", "AttendModelsNeverServed"], 30: ["AttendModelFailed", "AttendModelsNeverServed"]}),
    Case("AttendModelsNeverServed", "one model of several is large, and takes three minutes",
         {of("attend_all_models_served"): then(steady(0), steady(1), 3)}, {2: [], 5: [], 7: []}),
    Case("AttendModelMissing", "unloaded by mistake",
         {info("bert", 1): then(steady(1), NOTHING), requests("NOT_FOUND", ""): summed(then(steady(2), steady(1500)))},
         {14: [], 16: ["AttendModelMissing"], 60: ["AttendModelMissing"], 72: []}),
    Case("AttendModelMissing", "a version takes another's place",
         {info("bert", 1): then(steady(1), NOTHING), info("bert", 2): then(NOTHING, steady(1))}, {16: [], 30: []}),
    Case("AttendModelMissing", "loaded anew after a restart, for minutes",
         {name: then(then(steady(1), NOTHING), steady(1), BEGIN + 7) for name in (info("bert", 1), info("gpt2", 1))}
         | {of("attend_ready"): then(then(steady(1), steady(0)), steady(1), BEGIN + 7)}, {16: [], 18: [], 30: []}),
]

REQUESTS = [
    Case("AttendErrors", "one request in fifty fails", {requests("INTERNAL"): then(NOTHING, growing(30, since=BEGIN))},
         {12: [], 19: ["AttendErrors"]}),
    Case("AttendErrors", "a single failure where little is asked",
         {**no_traffic(), requests("OK"): growing(1), requests("INTERNAL"): then(steady(1), steady(2), 20)},
         {22: [], 24: [], 25: [], 26: []}),
    Case("AttendErrors", "clients ask for what is not there", {requests("NOT_FOUND", ""): growing(900)}, {30: []}),
    Case("AttendRefusing", "one tenant asks for too much", overload(ONE_TENANT, "tenant_share", refused=600),
         {25: ["AttendQueueNearLimit", "AttendRefusing", "AttendWaitsLong"]}),
    Case("AttendRefusing", "requests come with too little time",
         {of("attend_refused_total", reason="deadline"): growing(150, since=BEGIN),
          requests("DEADLINE_EXCEEDED"): then(NOTHING, growing(150, since=BEGIN))}, {12: [], 20: ["AttendRefusing"]}),
    Case("AttendRefusing", "a burst, once",
         {of("attend_refused_total", reason="queue_wait"): summed(at(BEGIN, 3000)),
          requests("RESOURCE_EXHAUSTED"): summed(at(BEGIN, 3000))}, {12: [], 14: [], 16: []}),
    Case("AttendRefusing", "one request in fifty is refused",
         {of("attend_refused_total", reason="queue_wait"): growing(30), requests("RESOURCE_EXHAUSTED"): growing(30)}, {30: []}),
    Case("AttendRefusing", "a server that drains sends callers elsewhere",
         {of("attend_refused_total", reason="unavailable"): growing(900), requests("UNAVAILABLE"): growing(900),
          of("attend_ready"): steady(0), of("attend_draining"): steady(1)}, {10: []}),
    Case("AttendQueueNearLimit", "one tenant asks for too much, and honours the pushback",
         {of("attend_queued_work_seconds"): then(steady(0.02), ONE_TENANT)},
         {13: [], 18: ["AttendQueueNearLimit"], 23: ["AttendQueueNearLimit"], 30: ["AttendQueueNearLimit"]}),
    Case("AttendQueueNearLimit", "callers without a tenant ask for too much", overload(NO_TENANT, "queue_wait", refused=1000),
         {25: ["AttendQueueNearLimit", "AttendRefusing", "AttendWaitsLong"]}),
    Case("AttendQueueNearLimit", "long messages that take little time",
         {of("attend_queued_bytes"): then(steady(0), repeated(*(share * 2**30 for share in (0.78, 0.8, 0.4, 0.79))))},
         {18: ["AttendQueueNearLimit"]}),
    Case("AttendQueueNearLimit", "very many short requests",
         {of("attend_queued_requests"): then(steady(0), repeated(6500, 6400, 3000, 6500))}, {18: ["AttendQueueNearLimit"]}),
    Case("AttendQueueNearLimit", "a caller that does not take its answers",
         {of("attend_reply_bytes"): then(steady(1e7), repeated(5.2e8, 5.3e8, 5e8, 4.4e8))}, {18: ["AttendQueueNearLimit"]}),
    Case("AttendQueueNearLimit", "bursts that are soon worked off",
         {of("attend_queued_work_seconds"): repeated(4.5, 2, 0.1, 0, 0, 0, 0, 0)}, {30: [], 31: [], 32: []}),
    Case("AttendQueueNearLimit", "comes up into load that waited for it",
         {of("attend_queued_work_seconds"): then(then(NOTHING, steady(4.5)), steady(0.02), BEGIN + 1)}, {11: [], 12: [], 13: []}),
    Case("AttendQueueNearLimit", "nothing may wait", {of("attend_queue_limit_seconds"): steady(0)}, {30: []}),
    Case("AttendWaitsLong", "requests wait for seconds", waits(fast=1400, slow=100), {8: [], 16: ["AttendWaitsLong"]}),
    Case("AttendWaitsLong", "one in two hundred waits for seconds", waits(fast=1500, slow=7), {30: []}),
    Case("AttendWaitsLong", "nobody asks for anything", no_traffic(), {30: []}),
    Case("AttendStuck", "the threads stand still with a batch, and a probe restarts the server",
         {of("attend_compute_stalled"): then(then(steady(0), steady(1)), steady(0), BEGIN + 1)},
         {9: [], 12: ["AttendStuck"], 20: []}),
    Case("AttendStuck", "a request of eight minutes, alone",
         {**no_traffic(), of("attend_running_requests"): then(then(steady(0), steady(1)), steady(0), BEGIN + 8),
          of("attend_busy_seconds_total"): then(steady(90), steady(570), BEGIN + 8)}, {17: [], 19: [], 30: []}),
    Case("AttendCallersRefusedByRights", "the one caller's token has expired",
         {**no_traffic(), requests("UNAUTHENTICATED", ""): then(NOTHING, growing(2, since=BEGIN))},
         {15: [], 25: ["AttendCallersRefusedByRights"]}),
    Case("AttendCallersRefusedByRights", "somebody tries what is not theirs, beside many callers",
         {requests("PERMISSION_DENIED", ""): then(NOTHING, growing(30, since=BEGIN))},
         {25: ["AttendCallersRefusedByRights"]}),
    Case("AttendCallersRefusedByRights", "a mistyped token, thrice, where little is asked",
         {**no_traffic(), requests("OK"): growing(0.25),
          requests("UNAUTHENTICATED", ""): then(then(steady(1), steady(2), 20), steady(3), 22)},
         {24: [], 26: [], 28: []}),
]

RESOURCES = [
    Case("AttendThrottled", "more threads than the quota has cores",
         {of("attend_cgroup_throttled_seconds_total"): summed(then(steady(0.4), steady(15)))},
         {12: [], 27: ["AttendThrottled"]}),
    Case("AttendThrottled", "sixteen threads, each short of its core now and then",
         {of("attend_compute_threads"): steady(16), of("attend_cgroup_throttled_seconds_total"): growing(9)}, {30: []}),
    Case("AttendSessionMemoryFull", "prompts are refused before all is taken, and sessions end",
         {of("attend_session_cache_bytes"): then(steady(3e8), repeated(9.4e8, 9.5e8, 9.3e8, 7.5e8))},
         {14: [], 30: ["AttendSessionMemoryFull"], 33: ["AttendSessionMemoryFull"]}),
    Case("AttendSessionMemoryFull", "full for three minutes",
         {of("attend_session_cache_bytes"): then(then(steady(3e8), steady(1.05e9)), steady(3e8), BEGIN + 3)},
         {13: [], 16: [], 20: []}),
    Case("AttendConnectionsRefused", "a pool of clients that comes back every two minutes",
         {of("attend_connections_refused_total"): summed(then(steady(0), repeated(50, *[0] * 7)))},
         {12: [], 18: ["AttendConnectionsRefused"], 30: ["AttendConnectionsRefused"]}),
    Case("AttendConnectionsRefused", "once", {of("attend_connections_refused_total"): then(steady(0), steady(200))},
         {12: [], 14: [], 15: [], 16: []}),
    Case("AttendFilesNearLimit", "as many files as may be open",
         {of("process_open_fds"): then(steady(300), repeated(1020, 1024, 1010)), of("process_max_fds"): steady(1024)},
         {15: [], 22: ["AttendFilesNearLimit"]}),
    Case("AttendFilesNearLimit", "half of them",
         {of("process_open_fds"): steady(520), of("process_max_fds"): steady(1024)}, {30: []}),
    Case("AttendCredentialFilesInvalid", "a broken file of tokens",
         {of("attend_credential_files_valid", flag="--tokens"): then(steady(1), steady(0))},
         {12: [], 16: ["AttendCredentialFilesInvalid"], 30: ["AttendCredentialFilesInvalid"]}),
    Case("AttendCredentialFilesInvalid", "a file that is written in two steps",
         {of("attend_credential_files_valid", flag="--tokens"): repeated(1, 1, 0, 1, 1, 1, 1, 1)}, {30: []}),
    Case("AttendCredentialFilesInvalid", "no credentials",
         {of("attend_credential_files_valid", flag="--tokens"): NOTHING}, {30: []}),
    Case("AttendCertificateExpiring", "ten days are left",
         {of("attend_certificate_expiry_timestamp_seconds"): steady(10 * DAY)}, {50: [], 65: ["AttendCertificateExpiring"]}),
    Case("AttendCertificateExpiring", "renewed in time",
         {of("attend_certificate_expiry_timestamp_seconds"): then(steady(13 * DAY), steady(90 * DAY))}, {9: [], 75: []}),
    Case("AttendCertificateExpiring", "no certificate", {of("attend_certificate_expiry_timestamp_seconds"): NOTHING}, {75: []}),
    Case("AttendCertificateLastDay", "twelve hours are left",
         {of("attend_certificate_expiry_timestamp_seconds"): steady(DAY / 2)},
         {6: ["AttendCertificateLastDay"], 65: ["AttendCertificateExpiring", "AttendCertificateLastDay"]}),
    Case("AttendCertificateLastDay", "it has expired",
         {of("attend_certificate_expiry_timestamp_seconds"): steady(-DAY)}, {6: ["AttendCertificateLastDay"]}),
    Case("AttendCertificateLastDay", "ten days are left",
         {of("attend_certificate_expiry_timestamp_seconds"): steady(10 * DAY)}, {30: []}),
]

CASES = [*SERVING, *REQUESTS, *RESOURCES]
