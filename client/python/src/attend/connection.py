"""Addresses and channels of both clients."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import socket
from collections import abc
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import grpc

from attend._attempts import REPEATABLE, Attempts, Budget
from attend._fields import flag, mapping, seconds, text, visible
from attend.errors import Unavailable

# Targets that gRPC reads in another way than host:port, whose port it would take modulo 65,536.
_SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:", "vsock:", "xds:")

Pem = Union[bytes, str, "pathlib.Path"]


@dataclasses.dataclass(frozen=True)
class Tls:
    """Certificates: PEM, as bytes or a text, or the paths of files."""

    ca: Optional[Pem] = None
    """The certificates of the trusted authorities. Default: gRPC's own roots."""
    certificate: Optional[Pem] = None
    """The chain of the client's own certificate, for servers that demand one (mutual TLS); it needs `key`."""
    key: Optional[Pem] = dataclasses.field(default=None, repr=False)
    """The private key of `certificate`."""
    server_name: Optional[str] = None
    """The name that the server's certificate must have. Default: the host of its address."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            found = "key" if self.certificate is None else "certificate"
            raise ValueError(f"tls: expected certificate and key together, found {found} alone")

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns the credentials of a channel. OSError for a file that cannot be read, ValueError for what is no PEM."""
        return grpc.ssl_channel_credentials(*(_pem(getattr(self, name), name) for name in ("ca", "key", "certificate")))


@dataclasses.dataclass
class Connection:
    """The arguments of a client's constructor, checked. ValueError for wrong ones."""

    server: Union[str, Sequence[str]]
    timeout: float
    tls: Union[None, bool, Tls]
    token: Union[None, str, Callable[[], str]] = dataclasses.field(repr=False)
    metadata: Mapping[str, Union[str, bytes]] = dataclasses.field(repr=False)
    retries: bool
    options: Sequence[Tuple[str, Any]] = ()
    budget: Budget = dataclasses.field(default_factory=Budget)

    def __post_init__(self) -> None:
        self.timeout = seconds(self.timeout, "timeout")
        self.retries = flag(self.retries, "retries")
        if not isinstance(self.tls, (type(None), bool, Tls)):
            raise TypeError(f"tls: expected True, False or an attend.Tls, found {type(self.tls).__name__}")
        if not isinstance(self.server, abc.Sequence) or not all(isinstance(one, str) for one in self.server):
            raise TypeError(f"server: expected a text or a list of texts, found {self.server!r}")
        for address in self.addresses:
            text(address, "server")
        if not self.addresses or not all(self.addresses):
            raise ValueError(f"server: expected host:port, dns:///name:port or unix:/path, found {self.server!r}")
        if len(self.addresses) == 1 and not self.addresses[0].startswith(_SCHEMES):
            _host_and_port(self.addresses[0])
        if callable(self.token) or _bearer(self.token):
            self._check_secrecy()
        self.metadata = self._checked(self.metadata)

    @property
    def addresses(self) -> List[str]:
        """The addresses of the servers, at least one."""
        server = self.server.split(",") if isinstance(self.server, str) else list(self.server)
        return [address.strip() for address in server]

    @property
    def name(self) -> str:
        """The name of the server in errors."""
        return ",".join(self.addresses)

    def channel(self, module: Any, interceptors: Sequence[Any]) -> Any:
        """Returns a channel of `module`, grpc or grpc.aio, which connects with the first call."""
        options = dict(_CHANNEL_OPTIONS)
        target = self.addresses[0]
        tls = self.tls if isinstance(self.tls, Tls) else Tls()
        name = tls.server_name
        policy: Dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
        if len(self.addresses) > 1 or target.startswith("dns:"):
            policy["healthCheckConfig"] = {"serviceName": ""}  # a single server is called whatever its health
        if len(self.addresses) > 1:
            target, host = static_list(self.addresses)
            if self.tls and not name and host is None:
                raise ValueError("tls: expected a server_name for a list of different hosts, found none")
            name = name or host
        options["grpc.service_config"] = json.dumps(policy)
        if self.tls and name:
            options["grpc.ssl_target_name_override"] = name
        options.update(self.options)
        more = {"interceptors": list(interceptors)} if module is not grpc and interceptors else {}
        if self.tls:
            channel = module.secure_channel(target, tls.credentials(), list(options.items()), **more)
        else:
            channel = module.insecure_channel(target, list(options.items()), **more)
        return grpc.intercept_channel(channel, *interceptors) if module is grpc and interceptors else channel

    def headers(self, metadata: Optional[Mapping[str, Union[str, bytes]]]) -> List[Tuple[str, Union[str, bytes]]]:
        """Returns the metadata of a call, with the token."""
        headers = {**self.metadata, **self._checked(metadata)}
        token = _bearer(self.token() if callable(self.token) else self.token)
        if token:
            headers["authorization"] = f"Bearer {token}"
        return list(headers.items())

    def _checked(self, metadata: Optional[Mapping[str, Union[str, bytes]]]) -> Dict[str, Union[str, bytes]]:
        """Returns metadata with keys in lower case. TypeError and ValueError for what gRPC would refuse or disclose."""
        given = mapping({} if metadata is None else metadata, "metadata")
        lower = {visible(key, "metadata").lower(): value for key, value in given.items()}
        for key, value in lower.items():
            if not re.fullmatch("(?!grpc-)[0-9a-z_.-]+", key):
                raise ValueError(
                    f"metadata: expected keys of letters, digits, -, _ and . that do not begin with grpc-, found {key!r}"
                )
            if not (key.endswith("-bin") and isinstance(value, bytes)):
                visible(value, f"metadata.{key}")
        if "authorization" in lower:
            self._check_secrecy()
        return lower

    def _check_secrecy(self) -> None:
        for address in [] if self.tls else self.addresses:
            if not _ON_THIS_MACHINE.match(address):
                raise ValueError(
                    f"token: expected TLS to another machine, found a plaintext connection to {address}, which would disclose it"
                )

    def attempts(self, timeout: Optional[float], method: str = "") -> Attempts:
        """Begins a call of `method` with a deadline of `timeout` seconds from now, or the client's."""
        timeout = self.timeout if timeout is None else seconds(timeout, "timeout")
        return Attempts(self.retries and method in REPEATABLE, timeout, self.budget)


def token_from_file(path: Union[str, pathlib.Path]) -> Callable[[], str]:
    """Returns a function for `token=` that reads the file with every call, so that the token may be replaced."""
    return lambda: pathlib.Path(path).read_text().strip()


_ON_THIS_MACHINE = re.compile(r"unix:|unix-abstract:|(dns:/*|ipv4:|ipv6:)?(localhost|\[::1\]|127\.[0-9.]+):\d+$")
_CHANNEL_OPTIONS: List[Tuple[str, Any]] = [
    # The size of messages has no limit here; the server has one.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Large windows and frames from the first call on, instead of after a slow start.
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.http2.max_frame_size", 1 << 20),
    # Each client has a connection of its own: a server bounds the calls of a connection, and sessions take theirs for long.
    ("grpc.use_local_subchannel_pool", 1),
    # A broken connection is noticed within 25 s. A server that is back is found within 1 s, before the last retry of a call. While
    # no call runs, gRPC looks at its connections every 5 s only: the answer to a ping, and each of the two steps of connecting, may
    # wait so long.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 15_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),  # no limit
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 15_000),  # the time to connect, despite its name
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A name may come to mean another server: it is looked up again after 2 s instead of 30 s.
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    # Proxies of the environment are not used: one would answer for a server that is down.
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
]


def static_list(addresses: Sequence[str]) -> Tuple[str, Optional[str]]:
    """Returns gRPC's target for several host:port, or several unix:/path, and the host that all have in common, if any.

    gRPC has lists of numeric addresses only: names are looked up now, and unknown ones are left out. Unavailable if all are
    unknown."""
    if all(address.startswith("unix:") for address in addresses):
        return "unix:" + ",".join(address[len("unix:") :] for address in addresses), "localhost"
    hosts = [_host_and_port(address) for address in addresses]
    found: List[Tuple[bool, str]] = []
    for host, port in hosts:
        try:
            infos = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        except OSError:
            continue
        found += [(info[0] == socket.AF_INET6, f"{info[4][0]}:{port}") for info in infos]
    if not found:
        raise Unavailable(f"server: expected hosts that the system knows, found none in {','.join(addresses)}")
    any_v6 = any(is_v6 for is_v6, _ in found)
    texts = []
    for is_v6, address in found:
        host, _, port = address.rpartition(":")
        texts.append((f"[{host}]:{port}" if is_v6 else f"[::ffff:{host}]:{port}") if any_v6 else address)
    same = len({host for host, _ in hosts}) == 1
    return ("ipv6:" if any_v6 else "ipv4:") + ",".join(texts), hosts[0][0] if same else None


def _host_and_port(address: str) -> Tuple[str, str]:
    found = re.fullmatch(r"(?:\[([^\[\]/]*:[^\[\]/]*)\]|([^\[\]:/]+)):([0-9]{1,5})", address)
    if found is None or not 1 <= int(found[3]) <= 65535:
        raise ValueError(f"server: expected host:port with a port of 1 to 65535, found {address!r}")
    return found[1] or found[2], found[3]


def _bearer(token: Any) -> str:
    """Returns the token without blanks around it; empty: none."""
    return visible(token.strip() if isinstance(token, str) else token, "token") if token is not None else ""


def _pem(source: Optional[Pem], name: str) -> Optional[bytes]:
    """Its errors do not show PEM, which may be secret."""
    if source is None:
        return None
    if isinstance(source, str) and "-----BEGIN" in source:
        source = source.encode()
    data = source if isinstance(source, bytes) else pathlib.Path(source).read_bytes()
    kind, mark = ("private key", b"PRIVATE KEY-----") if name == "key" else ("certificate", b"-----BEGIN CERTIFICATE-----")
    if mark not in data:  # gRPC would end the process for nothing
        raise ValueError(f"tls: expected a PEM {kind} as {name}, found none")
    return data
