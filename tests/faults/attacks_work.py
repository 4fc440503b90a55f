"""Work that is allowed and unfair: one caller's calls that try to take the time, the room or the estimates of all."""

import itertools

import grpc
import numpy as np

from attack import SERVICE, attack, drain, first
from attacks_calls import MODELS
from harness import PATIENCE_S, pb

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


def begin(target, channel, message, number=0, timeout=PATIENCE_S):
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
            first(one)


def streamed(target, channel, request, times=1):
    return [target.stream(channel, SERVICE + "AttendStream", [request.SerializeToString()]) for _ in range(times)]


# Each row takes 15 KiB, its answer included: the 4,096 that a batch may have would come too near to what is allowed.
@attack("3,584 sequences of one row", flags=("--threads=2",))
def sequences_of_one_row(target):
    ids = pb.TokenIds(ids=[1] * 3584, lengths=[1] * 3584)
    drain(streamed(target, target.channel(), pb.AttendRequest(model="demo", token_ids=ids)))


@attack("131,072 narrow heads", flags=("--threads=2",))
def narrow_heads(target):
    one = rows_of(1, 131072, 1)
    drain(streamed(target, target.channel(), pb.AttendRequest(
        query_key_value=pb.QueryKeyValue(query=one, key=one, value=one)), times=3))


@attack("524,288 rows of four narrow heads, given up", flags=("--threads=2",), inflated_mib=24)
def narrow_rows(target):
    target.call(target.channel(), ATTEND, bare(1 << 19, heads=4), timeout=1, is_compressed=True).code()


@attack("two requests of minutes, of which one waits", flags=("--threads=2",), inflated_mib=48)
def minutes(target):
    message = bare(1 << 19, heads=4)
    calls = [target.call(target.channel(), ATTEND, message, timeout=3600, is_compressed=True) for _ in range(2)]
    for call in calls:
        try:
            call.result(timeout=1)  # while others ask
        except (grpc.FutureTimeoutError, grpc.RpcError):
            call.cancel()


@attack("32 million keys of a narrow head", flags=("--threads=2",), inflated_mib=245)
def narrow_keys(target):
    keys = rows_of(32_000_000, 1, 1)
    one = pb.QueryKeyValue(query=rows_of(64, 1, 1), key=keys, value=keys)
    target.call(target.channel(), ATTEND, pb.AttendRequest(query_key_value=one).SerializeToString(), is_compressed=True).code()


@attack("sums of linear attention without keys", flags=("--threads=2",))
def linear_without_keys(target):
    # An answer has 8 MiB, which the budget of replies knows; on a loaded machine that of an earlier round is still held.
    heads = 4096
    none = pb.QueryKeyValue(query=rows_of(1, heads, 1), key=rows_of(0, heads, 1), value=rows_of(0, heads, 512))
    drain(streamed(target, target.channel(), pb.AttendRequest(
        query_key_value=none, options=pb.AttentionOptions(similarity=pb.LINEAR))))


def session(heads, actions):
    """A session of narrow heads, and these actions on it: (sequence, field, value)."""
    yield pb.DecodeRequest(id=1, open=pb.OpenSession(heads=pb.AttentionHeads(num_heads=heads, head_dim=1))).SerializeToString()
    for number, (sequence, field, value) in enumerate(actions, 2):
        yield pb.DecodeRequest(id=number, sequence=sequence, **{field: value}).SerializeToString()


@attack("forks of a session, and a step of each", flags=("--threads=1", "--max-cache-bytes=33554432"))
def forks_and_steps(target):
    heads = 1024
    row = rows_of(1, heads, 1)
    step = pb.DecodeStep(query_key_value=pb.QueryKeyValue(query=row, key=row, value=row))
    actions = [(0, "step", step)]
    for fork in range(1, 1000):
        actions += [(0, "fork", pb.ForkSequence(new_sequence=fork)), (fork, "step", step)]
    drain([target.stream(target.channel(), SERVICE + "Decode", session(heads, actions))])


@attack("sessions of many head shapes", flags=("--threads=1",))
def sessions_of_many_shapes(target):
    # The pages of each have a size of their own, and take 8 MiB.
    for heads in range(1024, 1664, 16):
        row = rows_of(1, heads, 1)
        step = pb.DecodeStep(query_key_value=pb.QueryKeyValue(query=row, key=row, value=row), no_output=True)
        drain([target.stream(target.channel(), SERVICE + "Decode", session(heads, [(0, "step", step)]))])


@attack("values that are not finite behind a mask", flags=SMALL_QUEUE)
def not_finite_behind_a_mask(target):
    rows, heads = 256, 256
    request = pb.AttendRequest.FromString(bare(rows, heads))
    request.query_key_value.value.data = np.full((rows, heads, 1), np.nan, np.float32).tobytes()
    mask = np.random.default_rng(1).integers(0, 2, (1, 1, rows, rows)).astype(np.uint8)
    request.options.mask.CopyFrom(pb.Tensor(dtype=pb.BOOL, shape=mask.shape, data=mask.tobytes()))
    all_shapes(target, itertools.repeat(request.SerializeToString(), 32))


@attack("steps that only add keys", flags=("--threads=1",))
def keys_only(target):
    heads, keys = 16, rows_of(500, 16, 1)
    step = pb.DecodeStep(query_key_value=pb.QueryKeyValue(query=rows_of(0, heads, 1), key=keys, value=keys, query_offsets=[0]))
    actions = [(0, "step", step), (0, "truncate", pb.TruncateSequence(length=0))] * 200
    drain([target.stream(target.channel(), SERVICE + "Decode", session(heads, actions)) for _ in range(4)])


ROUNDS = itertools.count()


def prompts_that_fork(round_number, cut):
    """20 prompts for `gpt2`, each of which leaves the prompt of an earlier cut after another token."""
    ids = []
    for family in range(round_number * 20, round_number * 20 + 20):
        ids += [family // 38**place % 38 for place in range(4)] + [38] * (91 - cut) + [39]
    return pb.AttendRequest(model="gpt2", token_ids=pb.TokenIds(ids=ids, lengths=[96 - cut] * 20),
                            model_output=pb.LAST_LOGITS)


@attack("prompts that split kept prefixes",
        flags=(MODELS, "--threads=1", "--prefix-cache-bytes=8388608", "--max-cache-bytes=16777216"))
def split_prefixes(target):
    number = next(ROUNDS)
    all_shapes(target, (prompts_that_fork(number, cut).SerializeToString() for cut in range(90)))
