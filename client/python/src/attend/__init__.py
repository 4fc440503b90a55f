"""Client of Attend, an attention-inference server: numpy arrays in and out, sync and asyncio.

    with attend.Client("127.0.0.1:8001") as client:
        result = client.attend(rows, model="demo", causal=True)
"""

from attend.aio import AsyncAttendStream, AsyncClient
from attend.aio_session import AsyncSession
from attend.client import AttendStream, Client
from attend.connection import Retry, Tls, token_from_file
from attend.errors import (
    Aborted,
    AlreadyExists,
    AttendError,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Unknown,
)
from attend.models import Difference, Layer, Model, ModelLimits, ModelState, ServerStatistics, Verification
from attend.results import (
    AttendResult,
    Block,
    LayerWeights,
    LayerWeightsBlock,
    LogSumExpBlock,
    RowBlock,
    SessionState,
    SessionUsage,
    StepResult,
    Summary,
    TokenizedText,
    TokensBlock,
    TopLogits,
    TopWeights,
    TopWeightsBlock,
    WeightsBlock,
)
from attend.session import Session

__version__ = "0.1.0"
__all__ = [
    "Aborted",
    "AlreadyExists",
    "AsyncAttendStream",
    "AsyncClient",
    "AsyncSession",
    "AttendError",
    "AttendResult",
    "AttendStream",
    "Block",
    "Cancelled",
    "Client",
    "DataLoss",
    "DeadlineExceeded",
    "Difference",
    "FailedPrecondition",
    "Internal",
    "InvalidArgument",
    "Layer",
    "LayerWeights",
    "LayerWeightsBlock",
    "LogSumExpBlock",
    "Model",
    "ModelLimits",
    "ModelState",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "ResourceExhausted",
    "Retry",
    "RowBlock",
    "ServerStatistics",
    "Session",
    "SessionState",
    "SessionUsage",
    "StepResult",
    "Summary",
    "Tls",
    "TokenizedText",
    "TokensBlock",
    "TopLogits",
    "TopWeights",
    "TopWeightsBlock",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "Verification",
    "WeightsBlock",
    "token_from_file",
]
