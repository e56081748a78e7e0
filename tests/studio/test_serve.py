"""The server as it runs: real sockets, and Ctrl-C."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

import logsuper as ls

pytest.importorskip("uvicorn", reason="the extra studio is not installed")
client = pytest.importorskip("websockets.sync.client", reason="the extra studio is not installed")
errors = pytest.importorskip("websockets.exceptions")


@pytest.fixture(scope="module")
def where():
    command = [sys.executable, "-m", "logsuper", "studio", "--no-browser"]
    package = os.path.dirname(os.path.dirname(ls.__file__))
    environment = {**os.environ, "PYTHONPATH": package}
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    yield urlsplit(re.search(r"http\S+", server.stdout.readline()).group())
    server.send_signal(signal.SIGINT)
    assert server.communicate(timeout=20)[0] == "The studio is closed.\n"
    assert server.returncode == 0


def connect(where, **options):
    options = {"origin": f"http://{where.netloc}", "max_size": None, **options}
    return client.connect(f"ws://{where.netloc}{where.path}tab", **options)


def test_it_listens_on_this_machine_only(where):
    assert where.hostname == "127.0.0.1" and len(where.path.strip("/")) == 32
    with socket.socket() as other:
        other.settimeout(2)
        outside = socket.gethostbyname(socket.gethostname())
        if not outside.startswith("127."):
            assert other.connect_ex((outside, where.port)) != 0


def test_a_tab(where):
    with connect(where) as tab:
        assert json.loads(tab.recv())["is"] == "hello"
        tab.send('{"do": "nonsense"}')
        assert json.loads(tab.recv())["line"] == "there is nothing to do for 'nonsense'"


def test_a_message_that_is_too_long(where):
    with connect(where) as tab:
        tab.recv()
        with pytest.raises(errors.ConnectionClosed) as caught:
            tab.send(bytes(5 << 20))
            tab.recv()
        # the connection may be gone before the reason arrives
        assert caught.value.rcvd is None or caught.value.rcvd.code == 1009


def test_other_origins(where):
    with pytest.raises(errors.InvalidStatus) as caught:
        connect(where, origin="http://evil.example")
    assert caught.value.response.status_code == 403
    assert caught.value.response.body == b"requests of other sites are not answered\n"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Host: evil.example", 421),
        ("Host: {host}\r\nHost: evil.example", 400),
        ("Host: {host}\r\nOrigin: http://evil.example", 403),
        ("Host: {host}\r\nOrigin: http://{host}\r\nOrigin: http://evil.example", 400),
        ("X: 1", 400),
    ],
)
def test_headers(where, headers, status):
    head = f"GET {where.path}page/app.js HTTP/1.1\r\n{headers.format(host=where.netloc)}\r\n\r\n"
    with socket.create_connection((where.hostname, where.port), timeout=10) as sock:
        sock.sendall(head.encode())
        assert sock.recv(100).split()[1] == str(status).encode()


@pytest.mark.parametrize("path", ["/../../../etc/passwd", "//etc/passwd", "/%2e%2e/", "*"])
def test_paths(where, path):
    connection = http.client.HTTPConnection(where.netloc, timeout=10)
    connection.putrequest("GET", path)
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status in (400, 403, 404) and b"root:" not in answer.read()
    connection.close()
