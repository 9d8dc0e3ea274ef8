"""Tests of `tls_front`: calls pass, but not from clients that do not trust its certificate."""

from concurrent import futures
from pathlib import Path

import grpc
import pytest

from support.tls_front import HOST, tls_front


class Echo(grpc.GenericRpcHandler):
    """Answers every call with what it was sent."""

    def service(self, handler_call_details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


def test_calls_pass_encrypted(tmp_path: Path) -> None:
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Echo()])
    plain = server.add_insecure_port(f"{HOST}:0")
    server.start()
    message = bytes(range(256)) * 4096
    try:
        with tls_front(tmp_path, plain) as (port, certificate):
            trusted = grpc.ssl_channel_credentials(certificate.read_bytes())
            with grpc.secure_channel(f"{HOST}:{port}", trusted) as channel:
                assert channel.unary_unary("/a/b")(message, timeout=20) == message
            public = grpc.ssl_channel_credentials()
            with (
                grpc.secure_channel(f"{HOST}:{port}", public) as channel,
                pytest.raises(grpc.RpcError) as failed,
            ):
                channel.unary_unary("/a/b")(message, timeout=20)
            assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        server.stop(None).wait()
