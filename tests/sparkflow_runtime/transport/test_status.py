from urllib.parse import quote

import grpc
import pytest

from sparkflow_runtime.errors import (
    CancelledError,
    Code,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
    UnknownError,
    exception_type_from_error_code,
)
from sparkflow_runtime.protos.config_pb2 import ConfigProto
from sparkflow_runtime.transport import rpc, status
from sparkflow_runtime.transport.status import MAX_DETAILS, clip, printable


@pytest.mark.parametrize("sign", ["a", "\n", "ü", "漢", "%", "\ud800"])
@pytest.mark.parametrize("length", [10, 1999, 2001, 5999, 6001, 100_000])
def test_texts_fit_into_a_header(sign: str, length: int) -> None:
    text = "begin" + sign * length + "end"
    clipped = clip(text)
    assert len(quote(clipped, safe=status._PLAIN)) <= MAX_DETAILS
    assert clipped.startswith("begin")
    assert clipped.endswith("end")
    assert (clipped == printable(text)) == (len(quote(printable(text), safe=status._PLAIN)) <= 6000)


def _stub(handle: object) -> tuple[rpc.RpcServer, rpc.Stub, object]:
    table = {"Do": rpc.Method(handle, ConfigProto)}  # type: ignore[arg-type]
    server = rpc.RpcServer(
        [rpc.handlers("test.Service", table)], host="127.0.0.1", port=0, token=None
    )
    server.start()
    channel = rpc.channel(f"127.0.0.1:{server.port}")
    return server, rpc.Stub(channel, "test.Service", None, "The peer"), channel


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_errors_cross_with_class_and_text(code: Code) -> None:
    text = "what happened ü\n\t [[node 'x']]"

    def fail(_: object) -> object:
        raise exception_type_from_error_code(code)(message=text)

    server, stub, channel = _stub(fail)
    try:
        with pytest.raises(OpError) as info:
            stub.call("Do", ConfigProto(), ConfigProto.FromString, 20)
        assert type(info.value) is exception_type_from_error_code(code)
        assert str(info.value) == text
    finally:
        channel.close()  # type: ignore[attr-defined]
        server.stop()


def test_long_texts_and_foreign_exceptions_cross() -> None:
    def fail(request: ConfigProto) -> object:
        raise (
            InvalidArgumentError(message="ü" * 50_000)
            if request.log_device_placement
            else (KeyError("lost"))
        )

    server, stub, channel = _stub(fail)
    try:
        with pytest.raises(InvalidArgumentError, match="characters cut"):
            stub.call("Do", ConfigProto(log_device_placement=True), ConfigProto.FromString, 20)
        with pytest.raises(OpError, match="KeyError: 'lost'"):
            stub.call("Do", ConfigProto(), ConfigProto.FromString, 20)
    finally:
        channel.close()  # type: ignore[attr-defined]
        server.stop()


def test_an_unreachable_peer_is_named_and_one_that_reports_another_is_not_blamed() -> None:
    def fail(_: object) -> object:
        raise UnavailableError(message="Task ps:0 cannot be reached")

    server, stub, channel = _stub(fail)
    with pytest.raises(UnavailableError) as info:
        stub.call("Do", ConfigProto(), ConfigProto.FromString, 20)
    assert str(info.value) == "Task ps:0 cannot be reached"
    server.stop()
    with pytest.raises(UnavailableError, match=r"^The peer cannot be reached: "):
        stub.call("Do", ConfigProto(), ConfigProto.FromString, 20)
    channel.close()  # type: ignore[attr-defined]
    with pytest.raises(OpError, match="The channel to The peer was closed"):
        stub.call("Do", ConfigProto(), ConfigProto.FromString, 20)


class _Ended:
    """An rpc that ended without an answer, as reported by grpc."""

    def __init__(
        self, text: str, code: grpc.StatusCode = grpc.StatusCode.CANCELLED, raised: bool = False
    ) -> None:
        self._text, self._code, self._raised = text, code, raised

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._text

    def trailing_metadata(self) -> tuple[tuple[str, str], ...] | None:
        return ((status.RAISED_KEY, "1"),) if self._raised else None


def test_calls_that_a_stopping_server_ends_find_it_unavailable() -> None:
    ended = status.from_rpc(_Ended("CANCELLED"), "The peer")
    assert type(ended) is UnavailableError
    assert str(ended) == "The peer stopped serving"
    for text in ("Channel closed!", "Locally cancelled by application!"):
        assert type(status.from_rpc(_Ended(text), "The peer")) is CancelledError


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            grpc.StatusCode.UNKNOWN,
            "Stream removed (Failed parsing HTTP/2 (Frame size 11400203 is larger than max frame "
            "size 4194304))",
        ),
        (grpc.StatusCode.INTERNAL, "Compression bit set but no encoding configured"),
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "CLIENT: Received message larger than max (4026531840 vs. 2147483647)",
        ),
    ],
)
def test_what_grpc_cannot_read_is_a_broken_connection(code: grpc.StatusCode, text: str) -> None:
    """A network that changed bytes used to end training, which survives a lost connection."""
    broken = status.from_rpc(_Ended(text, code), "The peer")
    assert type(broken) is UnavailableError
    assert str(broken) == f"The connection to The peer broke: {text}"
    raised = status.from_rpc(_Ended(text, code, raised=True), "The peer")
    assert type(raised) is exception_type_from_error_code(Code(code.value[0]))
    assert str(raised) == text


def test_a_handler_that_failed_is_no_broken_connection() -> None:
    text = "Exception calling application: 'x'"
    assert type(status.from_rpc(_Ended(text, grpc.StatusCode.UNKNOWN), "x")) is UnknownError
    text = "Sent message larger than max (3 vs. 2)"
    large = status.from_rpc(_Ended(text, grpc.StatusCode.RESOURCE_EXHAUSTED), "x")
    assert type(large) is ResourceExhaustedError


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "The job's token is missing or wrong"),
        (grpc.StatusCode.UNIMPLEMENTED, "Method not found!"),
    ],
)
def test_who_refuses_a_call_that_it_knows_was_asked_something_else(
    code: grpc.StatusCode, text: str
) -> None:
    """Bytes of a header were changed, which has no checksum; it used to end a training."""
    kind = exception_type_from_error_code(Code(code.value[0]))
    assert type(status.from_rpc(_Ended(text, code), "The peer")) is kind  # at the first call
    known = status.from_rpc(_Ended(text, code), "The peer", is_known=True)
    assert type(known) is UnavailableError
    assert "it refuses a call that it knows" in str(known)
    raised = status.from_rpc(_Ended(text, code, raised=True), "The peer", is_known=True)
    assert type(raised) is kind
