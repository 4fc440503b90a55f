"""Work that is allowed and unfair: one caller's calls that try to take the time, the room or the estimates of all."""

import itertools

import numpy as np

from attack import SERVICE, attack
from harness import pb

ATTEND = SERVICE + "Attend"
PRIORITIES = ("high", "normal", "low")
# One thread and a queue of a second, so that little work fills it on any machine.
SMALL_QUEUE = ("--threads=1", "--max-queue-wait=1s", "--max-sessions=4096")


def rows_of(rows, heads, width):
    data = np.ones((rows, heads, width), np.float32).tobytes()
    return pb.Tensor(dtype=pb.FP32, shape=[rows, heads, width], data=data)


def bare(rows, heads=1, width=1):
    """Attention of that many rows over themselves; the work grows with their square, the message does not."""
    one = rows_of(rows, heads, width)
    return pb.AttendRequest(query_key_value=pb.QueryKeyValue(query=one, key=one, value=one, lengths=[rows])).SerializeToString()


def begin(target, channel, message, number=0, timeout=60):
    return target.call(channel, ATTEND, message, timeout=timeout, metadata=[
        ("attend-tenant", "attacker"), ("attend-priority", PRIORITIES[number % 3])])


@attack("a queue full of one caller's, all priorities", flags=SMALL_QUEUE)
def full_queue(target):
    channel, message = target.channel(), bare(8192)
    calls = [begin(target, channel, message, number) for number in range(60)]
    for call in calls:
        call.code()


@attack("deadlines too short, then a full queue", flags=SMALL_QUEUE)
def short_deadlines(target):
    channel, message = target.channel(), bare(8192)
    for _ in range(5):
        calls = [begin(target, channel, message, number, timeout=0.005) for number in range(20)]
        for call in calls:
            call.code()
    full_queue(target)


@attack("long work that is cancelled as it waits", flags=SMALL_QUEUE)
def cancelled_work(target):
    channel, message = target.channel(), bare(8192)
    for _ in range(5):
        calls = [begin(target, channel, message, number) for number in range(20)]
        for call in calls:
            call.cancel()


def all_shapes(target, messages):
    """Sends these requests, 64 at a time."""
    channel = target.channel()
    while some := list(itertools.islice(messages, 64)):
        for call in [begin(target, channel, message) for message in some]:
            call.code()


@attack("4,096 shapes of heads", flags=("--threads=1",))
def many_shapes(target):
    all_shapes(target, (bare(1, heads, width) for heads, width in itertools.product(range(1, 65), range(1, 65))))


@attack("500 widths and lengths", flags=("--threads=1",))
def many_widths(target):
    # Each may want a generated kernel of its own.
    all_shapes(target, (bare(rows, 1, width) for width, rows in itertools.product(range(1, 301, 3), (17, 33, 48, 65, 97))))


@attack("2,000 idle sessions", flags=SMALL_QUEUE)
def idle_sessions(target):
    open_it = pb.DecodeRequest(id=1, open=pb.OpenSession(heads=pb.AttentionHeads(num_heads=1, head_dim=1)))
    row = rows_of(1, 1, 1)
    step = pb.DecodeRequest(id=2, step=pb.DecodeStep(query_key_value=pb.QueryKeyValue(query=row, key=row, value=row)))
    messages = [open_it.SerializeToString(), step.SerializeToString()]
    for _ in range(4):
        channel, streams = target.channel(), []
        for _ in range(500):
            streams.append(target.open_stream(channel, SERVICE + "Decode", messages))
        for one in streams:
            next(one, None)
