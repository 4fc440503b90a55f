"""How a server is reached, and when a call is tried again: one place for both clients."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import random
import re
import socket
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import grpc

from attend.errors import AttendError, ResourceExhausted, Unavailable

Pem = Union[bytes, str, "pathlib.Path"]


@dataclasses.dataclass(frozen=True)
class Tls:
    """Certificates, as PEM bytes or the paths of files."""

    ca: Optional[Pem] = None
    """Whom to believe; the roots that gRPC knows unless set."""
    certificate: Optional[Pem] = None
    """This client's own chain, for servers that demand one; with `key`."""
    key: Optional[Pem] = None
    server_name: Optional[str] = None
    """The name that the server's certificate must have, where that is not the name of its address."""

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(_pem(self.ca), _pem(self.key), _pem(self.certificate))


@dataclasses.dataclass(frozen=True)
class Retry:
    """Calls are tried again when that can help and is sure to do no harm: UNAVAILABLE, and RESOURCE_EXHAUSTED when the
    server says when to come back; never beyond the deadline, never once an answer has begun. `attempts` counts the first.
    """

    attempts: int = 4
    initial_backoff: float = 0.1
    max_backoff: float = 2.0


@dataclasses.dataclass(frozen=True)
class Connection:
    """What a client was told about its server."""

    servers: Union[str, Sequence[str]]
    timeout: float
    tls: Union[bool, Tls]
    token: Union[None, str, Callable[[], str]]
    metadata: Mapping[str, str]
    retry: Retry

    def __post_init__(self) -> None:
        check_seconds("timeout", self.timeout)
        if not self.addresses or not all(self.addresses):
            raise ValueError(f"servers: expected host:port, dns:///name:port or unix:/path, found {self.servers!r}")
        if self.token is not None or "authorization" in {key.lower() for key in self.metadata}:
            self._check_secrecy()

    @property
    def addresses(self) -> List[str]:
        servers = self.servers.split(",") if isinstance(self.servers, str) else list(self.servers)
        return [address.strip() for address in servers]

    @property
    def name(self) -> str:
        """For people."""
        return ",".join(self.addresses)

    def channel(self, module: Any) -> Any:
        """A channel of `module`, grpc or grpc.aio. It connects with the first call."""
        options = list(_CHANNEL_OPTIONS)
        target = self.addresses[0]
        tls = self.tls if isinstance(self.tls, Tls) else Tls()
        name = tls.server_name
        if len(self.addresses) > 1:
            target = static_list(self.addresses)
            name = name or _host_and_port(self.addresses[0])[0]
        if not self.tls:
            return module.insecure_channel(target, options)
        if name:
            options.append(("grpc.ssl_target_name_override", name))
        return module.secure_channel(target, tls.credentials(), options)

    def headers(self, metadata: Optional[Mapping[str, str]]) -> List[Tuple[str, str]]:
        """The metadata of a call."""
        headers = {**self.metadata, **(metadata or {})}
        token = self.token() if callable(self.token) else self.token
        if token is not None:
            headers["authorization"] = f"Bearer {token.strip()}"
        return [(key.lower(), value) for key, value in headers.items()]

    def _check_secrecy(self) -> None:
        for address in [] if self.tls else self.addresses:
            if not _ON_THIS_MACHINE.match(address):
                raise ValueError(
                    f"token: expected TLS on the way to another machine, found a plaintext connection to {address}, on "
                    "which anybody could read it"
                )

    def attempts(self, timeout: Optional[float]) -> "Attempts":
        return Attempts(self.retry, self.timeout if timeout is None else check_seconds("timeout", timeout))


class Attempts:
    """Of one call: the time that is left, and when to try again."""

    def __init__(self, retry: Retry, timeout: float) -> None:
        self.timeout = timeout
        self._retry = retry
        self._deadline = time.monotonic() + timeout
        self._failed = 0

    def remaining(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def delay_after(self, error: AttendError) -> Optional[float]:
        """Seconds until the call may be tried again; None: it may not."""
        self._failed += 1
        if self._failed >= self._retry.attempts:
            return None
        delay = error.retry_after
        if delay is None and isinstance(error, Unavailable):
            ceiling = min(self._retry.max_backoff, self._retry.initial_backoff * 2 ** (self._failed - 1))
            delay = random.uniform(0.5, 1.0) * ceiling
        if not isinstance(error, (Unavailable, ResourceExhausted)) or delay is None or delay >= self.remaining():
            return None
        return delay


def token_from_file(path: Union[str, pathlib.Path]) -> Callable[[], str]:
    """For `token=`: read again with each call, so that it may be replaced."""
    return lambda: pathlib.Path(path).read_text().strip()


def check_seconds(name: str, seconds: float) -> float:
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"{name}: expected positive, finite seconds, found {seconds!r}")
    return seconds


_ON_THIS_MACHINE = re.compile(r"unix:|unix-abstract:|(dns:/*|ipv4:|ipv6:)?(localhost|\[::1\]|127\.[0-9.]+):\d+$")
_CHANNEL_OPTIONS: List[Tuple[str, Any]] = [
    # Tensors are as large as they are; the server has the limit.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Large windows and frames from the first call on, instead of after a slow start.
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.http2.max_frame_size", 1 << 20),
    # A server that is gone is noticed, and found again when it is back.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),  # no limit
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # the time to connect, despite its name
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # A server that took another's place is there under the same name: look it up again soon, not after 30 s.
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    # A proxy of the environment would answer for a server that is not there.
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
]


def static_list(addresses: Sequence[str]) -> str:
    """Several host:port as one target of gRPC, which has such lists of numeric addresses only."""
    by_family: Dict[str, List[str]] = {"ipv4": [], "ipv6": []}
    for address in addresses:
        host, port = _host_and_port(address)
        try:
            found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        except OSError as error:
            raise ValueError(f"servers: {address}: {error}") from None
        is_v6 = found[0] == socket.AF_INET6
        by_family["ipv6" if is_v6 else "ipv4"].append(f"[{found[4][0]}]:{port}" if is_v6 else f"{found[4][0]}:{port}")
    used = [family for family, members in by_family.items() if members]
    if len(used) > 1:
        raise ValueError(f"servers: expected addresses of one family, found {', '.join(addresses)}")
    return f"{used[0]}:{','.join(by_family[used[0]])}"


def _host_and_port(address: str) -> Tuple[str, str]:
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or "/" in host:
        raise ValueError(f"servers: expected host:port for each of several, found {address!r}")
    return host.strip("[]"), port


def _pem(source: Optional[Pem]) -> Optional[bytes]:
    return source if source is None or isinstance(source, bytes) else pathlib.Path(source).read_bytes()
