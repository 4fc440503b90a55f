"""Client of Attend, an attention-inference server: numpy arrays in and out, sync and asyncio.

    with attend.Client("127.0.0.1:8001") as client:
        result = client.attend(rows, model="demo", causal=True)
"""

from attend.aio import AsyncAttendStream, AsyncClient
from attend.aio_session import AsyncSession
from attend.client import AttendStream, Client
from attend.connection import Tls, token_from_file
from attend.errors import (
    Aborted, AlreadyExists, AttendError, Cancelled, DataLoss, DeadlineExceeded, FailedPrecondition, Internal,
    InvalidArgument, NotFound, OutOfRange, PermissionDenied, ResourceExhausted, Unauthenticated, Unavailable,
    Unimplemented, Unknown,
)
from attend.models import (
    Difference, LatencyHistogram, Layer, Logging, Model, ModelLimits, ModelState, ModelStatistics, ServerStatistics,
    SessionUsage, Summary, TokenizedText, TopLogits, Verification,
)
from attend.results import (
    AttendResult, Block, LayerWeights, LayerWeightsBlock, LogSumExpBlock, RowBlock, SessionState,
    ShardedResult, ShardRange, StepResult, TokensBlock, TopWeights, TopWeightsBlock, WeightsBlock,
)
from attend.session import Session
from attend.sharded_session import ShardedSession

__version__ = "0.2.0"
__all__ = [
    "Aborted", "AlreadyExists", "AsyncAttendStream", "AsyncClient", "AsyncSession", "AttendError", "AttendResult",
    "AttendStream", "Block", "Cancelled", "Client", "DataLoss", "DeadlineExceeded", "Difference", "FailedPrecondition",
    "Internal", "InvalidArgument", "LatencyHistogram", "Layer", "LayerWeights", "LayerWeightsBlock", "LogSumExpBlock",
    "Logging", "Model", "ModelLimits", "ModelState", "ModelStatistics", "NotFound", "OutOfRange", "PermissionDenied",
    "ResourceExhausted", "RowBlock", "ServerStatistics", "Session", "SessionState", "SessionUsage", "ShardRange",
    "ShardedResult", "ShardedSession", "StepResult", "Summary", "Tls", "TokenizedText", "TokensBlock", "TopLogits",
    "TopWeights", "TopWeightsBlock", "Unauthenticated", "Unavailable", "Unimplemented", "Unknown", "Verification",
    "WeightsBlock", "token_from_file",
]
