"""A program in a terminal of its own, for tests: what it writes, and keys that it gets."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

PATIENCE_S = 300


class TerminalSession:
    """Every wait is bounded; what still runs is killed at the end."""

    def __init__(self, arguments, columns=80, rows=24, environment=None):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(arguments[0], arguments, dict(os.environ, TERM="xterm", **(environment or {})))
        self.resize(columns, rows)

    def resize(self, columns, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, keys):
        os.write(self.fd, keys.encode())

    def _read(self, deadline):
        """False at the end of the program's output."""
        ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing more within {PATIENCE_S} s, after: {self.text[-2000:]!r}")
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def wait_for(self, words):
        """Returns what was written up to the words and with them, and forgets it."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.text:
            if not self._read(deadline):
                raise AssertionError(f"ended before {words!r}: {self.text[-2000:]!r}")
        end = self.text.index(words) + len(words)
        read, self.text = self.text[:end], self.text[end:]
        return read

    def wait_for_exit(self):
        """Its exit code, or 128 + the signal that ended it."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(deadline):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)

    def close(self):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
