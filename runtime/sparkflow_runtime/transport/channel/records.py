"""Encrypted records of up to 256 KiB, which replace TLS's once a channel is open.

    length: u32 | ciphertext: `length` bytes, the last 16 of which are the tag

Python's ssl reads one record of 16 KiB per call, which takes several times as long as the network.
So TLS opens the channel: it authenticates the peers and agrees on secrets. The channel's handshake
takes place inside TLS, and from its transcript, which includes two random numbers of 32 bytes that
nobody else can know, both ends derive two keys, one for each direction. What follows is records,
not TLS.

Records are sealed by AES-256-GCM. The nonce is the record's number, which does not travel, and the
length is authenticated, too: a record that was changed, lost, repeated or reordered is rejected.
After `RECORDS_PER_KEY` records both ends derive the next key from the last one, so that no key
encrypts more than 256 GiB.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import socket
import struct
from typing import Any, Final

from sparkflow_runtime.errors import DataLossError

RECORD_BYTES: Final = 1 << 18
"""Maximum plaintext of a record; shorter if there is less to send."""
RECORDS_PER_KEY: Final = 1 << 20
KEY_BYTES: Final = 32
_TAG_BYTES: Final = 16
_LENGTH: Final = struct.Struct("<I")
_NONCE_BYTES: Final = 12
_NEXT: Final = b"sparkflow tensor channel: next key"


@functools.cache
def available() -> bool:
    """Whether the installed `cryptography`, if any, can encrypt into memory."""
    with contextlib.suppress(ImportError):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return hasattr(AESGCM, "encrypt_into") and hasattr(AESGCM, "decrypt_into")
    return False


def instead_of(link: Any, keys: tuple[bytes, bytes], task: str) -> Records:
    """Replaces the TLS of `link` by records, at the end of the handshake.

    OpenSSL reads record by record, so it has read nothing beyond the handshake. The two sides send
    nothing more in TLS, not even its closing alert, as a missing record is detected anyway.

    Args:
        link: An `ssl.SSLSocket`, which is of no use afterwards.
        keys: See `Records`.
        task: The task at the other end.
    """
    plain = socket.socket(fileno=link.detach())
    return Records(plain, keys, f"Task {task}" if task else "A client")


class _Cipher:
    """The cipher of one direction's records."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._new = AESGCM
        self._key = key
        self._cipher = AESGCM(key)
        self.number = 0

    def seal(self, data: Any, record: memoryview) -> int:
        """Writes the next record; returns its size."""
        length = _LENGTH.pack(len(data) + _TAG_BYTES)
        end = _LENGTH.size + len(data) + _TAG_BYTES
        record[: _LENGTH.size] = length
        self._cipher.encrypt_into(self._begin(), data, length, record[_LENGTH.size : end])
        return end

    def open(self, length: bytes, sealed: memoryview, target: memoryview) -> None:
        """Decrypts the next record into memory.

        Raises:
            ValueError: It is not the record that was sent. What was written is invalid.
        """
        from cryptography.exceptions import InvalidTag

        try:
            self._cipher.decrypt_into(self._begin(), sealed, length, target)
        except InvalidTag:
            raise ValueError from None

    def _begin(self) -> bytes:
        if self.number and self.number % RECORDS_PER_KEY == 0:
            self._key = hmac.digest(self._key, _NEXT, "sha256")
            self._cipher = self._new(self._key)
        self.number += 1
        return self.number.to_bytes(_NONCE_BYTES, "little")


class Records:
    """A socket whose bytes are records. It has the methods of a socket that a wire needs.

    One thread at a time may use it, as with `ssl.SSLSocket`.

    Args:
        link: The connected socket.
        keys: The keys for sending and for receiving.
        peer: The other end's name in errors.
    """

    def __init__(self, link: socket.socket, keys: tuple[bytes, bytes], peer: str) -> None:
        self._link = link
        self._sealing, self._opening = map(_Cipher, keys)
        self._peer = peer
        size = _LENGTH.size + RECORD_BYTES + _TAG_BYTES
        self._sealed = memoryview(bytearray(size))
        self._unsent = self._sealed[:0]
        self._taken = 0
        self._raw = memoryview(bytearray(size))
        self._start = self._end = 0
        self._opened = memoryview(bytearray(RECORD_BYTES))
        self._plain = self._opened[:0]

    @property
    def family(self) -> int:
        """The socket's address family."""
        return self._link.family

    def fileno(self) -> int:
        """Returns the socket's descriptor."""
        return self._link.fileno()

    def setblocking(self, flag: bool) -> None:
        """Sets whether the socket blocks."""
        self._link.setblocking(flag)

    def shutdown(self, how: int) -> None:
        """As the socket's."""
        self._link.shutdown(how)

    def close(self) -> None:
        """As the socket's."""
        self._link.close()

    def send(self, data: Any) -> int:
        """Sends what fits into a record; returns the number of bytes.

        Raises:
            BlockingIOError: The socket did not accept all of it. Call again with the same data.
        """
        if not self._unsent:
            view = memoryview(data).cast("B")[:RECORD_BYTES]
            self._unsent = self._sealed[: self._sealing.seal(view, self._sealed)]
            self._taken = len(view)
        while self._unsent:
            self._unsent = self._unsent[self._link.send(self._unsent) :]
        return self._taken

    def pending(self) -> bool:
        """Whether something can be received without reading the socket."""
        return bool(self._plain) or self._has_record()

    def recv_into(self, target: memoryview) -> int:
        """Receives the available part of a record, as far as it fits; returns 0 at the end.

        Raises:
            BlockingIOError: No record is complete yet.
            ConnectionResetError: The connection ended within a record.
            DataLossError: It is not the record that was sent.
        """
        while not self._plain:
            if self._has_record():
                count = self._open(target)
                if count:
                    return count
                continue
            if self._start:
                rest = self._end - self._start
                self._raw[:rest] = bytes(self._raw[self._start : self._end])
                self._start, self._end = 0, rest
            count = self._link.recv_into(self._raw[self._end :])
            if count == 0:
                if self._end:
                    raise ConnectionResetError("closed by the other end within a record")
                return 0
            self._end += count
        taken = self._plain[: len(target)]
        target[: len(taken)] = taken
        self._plain = self._plain[len(taken) :]
        return len(taken)

    def _has_record(self) -> bool:
        """Whether the next record is complete, or can never be."""
        there = self._end - self._start
        if there < _LENGTH.size:
            return False
        (length,) = _LENGTH.unpack_from(self._raw, self._start)
        return bool(there >= _LENGTH.size + length or length > RECORD_BYTES + _TAG_BYTES)

    def _open(self, target: memoryview) -> int:
        """Decrypts the next record into the target, if it fits; returns its size, or 0."""
        begin = self._start + _LENGTH.size
        size = int(_LENGTH.unpack_from(self._raw, self._start)[0])
        if not _TAG_BYTES < size <= RECORD_BYTES + _TAG_BYTES:
            raise self._broken(f"would have {size} bytes")
        end = begin + size
        count = size - _TAG_BYTES
        plain = target[:count] if count <= len(target) else self._opened[:count]
        try:
            self._opening.open(bytes(self._raw[self._start : begin]), self._raw[begin:end], plain)
        except ValueError:
            raise self._broken("is not what was sent, or not the next one") from None
        self._start = end
        if count <= len(target):
            return count
        self._plain = plain
        return 0

    def _broken(self, what: str) -> DataLossError:
        number = self._opening.number
        return DataLossError(
            message=f"{self._peer}: encrypted record {number} of this channel {what}: "
            "something between the two changes, loses or repeats bytes"
        )
