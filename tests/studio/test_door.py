"""Who is let in, and what the others are told: the attack list."""

import io
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("starlette", reason="the extra studio is not installed")
pytest.importorskip("httpx", reason="the extra test is not installed")

from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from logsuper.studio._app import make_app
from logsuper.studio._limits import Limits

TOKEN, PORT = "a-token", 8123
HOST = f"127.0.0.1:{PORT}"
OWN = {"host": HOST, "origin": f"http://{HOST}"}
LIMITS = Limits(upload=200_000, pixels=100_000, message=1 << 20, tabs=2)


@pytest.fixture
def client():
    with TestClient(make_app(TOKEN, PORT, limits=LIMITS), base_url=f"http://{HOST}") as found:
        yield found


def one_line(answer, status):
    assert answer.status_code == status
    assert answer.text.endswith("\n") and answer.text.count("\n") == 1 and len(answer.text) > 10
    return answer.text


def connect(client, headers=OWN):
    return client.websocket_connect(f"/{TOKEN}/tab", headers=headers)


def png(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def upload(client, tab, data, name="image.png", **headers):
    more = {**OWN, "x-name": name, **headers}
    return client.post(f"/{TOKEN}/image/{tab}", content=data, headers=more)


def test_the_page_and_its_headers(client):
    answer = client.get(f"/{TOKEN}/", headers={"host": HOST})
    assert answer.status_code == 200 and "<title>logsuper studio</title>" in answer.text
    policy = answer.headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
        assert part in policy
    assert "unsafe" not in policy and "*" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers


def test_the_page_loads_nothing_from_elsewhere_and_nothing_inline(client):
    text = client.get(f"/{TOKEN}/", headers={"host": HOST}).text
    assert "http:" not in text and "https:" not in text and "//" not in text
    assert " style=" not in text and "<style" not in text and " onclick" not in text
    for name in ("app", "clean", "link", "pixels", "scribbles", "segment", "stage"):
        script = client.get(f"/{TOKEN}/page/{name}.js", headers={"host": HOST})
        assert script.status_code == 200 and "innerHTML" not in script.text
        assert script.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"https://{HOST}"}, 403),
        ({"origin": f"http://127.0.0.1:{PORT + 1}"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"host": "evil.example"}, 421),  # DNS rebinding
        ({"host": f"evil.example:{PORT}"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": f"127.0.0.1.evil.example:{PORT}"}, 421),
        ({"host": ""}, 421),
    ],
)
@pytest.mark.parametrize("path", ["page/app.js", "export/x/mask.png", "shipped/scene-0.png"])
def test_other_sites_are_refused(client, headers, status, path):
    answer = client.get(f"/{TOKEN}/{path}", headers={"host": HOST, **headers})
    one_line(answer, status)
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_link_from_elsewhere_may_open_the_page_but_nothing_else(client):
    visit = {"host": HOST, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get(f"/{TOKEN}/", headers=visit).status_code == 200
    one_line(client.get(f"/{TOKEN}/page/app.js", headers=visit), 403)


@pytest.mark.parametrize("token", ["", "a-toke", "a-tokenn", "A-TOKEN", "x" * 5000, "%00", "é"])
def test_a_wrong_token_is_refused(client, token):
    for path in (f"/{token}/", f"/{token}", f"/{token}/page/app.js"):
        assert "token" in one_line(client.get(path, headers={"host": HOST}), 403)


@pytest.mark.parametrize(
    "path",
    [
        "page/../_door.py", "page/..%2f_door.py", "page/%2e%2e/_door.py", "page//etc/passwd",
        "page/....//_door.py", "page/..\\_door.py", "../../etc/passwd", "shipped/../../x.png",
        "page/index.html%00.png", "shipped/scene-9.png", "shipped/scene-0", "nothing",
    ],
)  # fmt: skip
def test_no_path_leads_to_a_disk(client, path):
    request = client.build_request("GET", f"http://{HOST}/{TOKEN}/x", headers={"host": HOST})
    request.url = request.url.copy_with(raw_path=f"/{TOKEN}/{path}".encode())
    answer = client.send(request)
    assert answer.status_code in (403, 404), answer.text
    one_line(answer, answer.status_code)


def test_changes_need_the_origin_of_the_page(client):
    with connect(client) as socket:
        tab = socket.receive_json()["tab"]
        for headers in ({"host": HOST}, {**OWN, "origin": "http://evil.example"}):
            answer = client.post(f"/{TOKEN}/image/{tab}", content=b"x", headers=headers)
            one_line(answer, 403)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/{TOKEN}/tab", {"host": HOST}, 403),
        (f"/{TOKEN}/tab", {**OWN, "origin": "http://evil.example"}, 403),
        (f"/{TOKEN}/tab", {"host": "evil.example", "origin": "http://evil.example"}, 421),
        ("/wrong/tab", OWN, 403),
    ],
)
def test_connections_are_refused_likewise(client, path, headers, status):
    with pytest.raises(WebSocketDenialResponse) as caught:
        with client.websocket_connect(path, headers=headers):
            pass
    one_line(caught.value, status)


def test_other_methods(client):
    one_line(client.post(f"/{TOKEN}/", headers=OWN), 405)
    one_line(client.request("TRACE", f"/{TOKEN}/", headers=OWN), 405)


def test_a_tab_too_many(client):
    with connect(client) as first, connect(client) as second:
        assert first.receive_json()["tab"] != second.receive_json()["tab"]
        with connect(client) as third, pytest.raises(WebSocketDisconnect) as caught:
            third.receive_json()
        assert caught.value.code == 4000 and "2 tabs are open already" in caught.value.reason
    with connect(client) as again:
        assert again.receive_json()["is"] == "hello"


def test_a_tab_that_rests(client):
    app = make_app(TOKEN, PORT, limits=Limits(idle=0.05))
    with TestClient(app, base_url=f"http://{HOST}") as other, connect(other) as socket:
        socket.receive_json()
        with pytest.raises(WebSocketDisconnect) as caught:
            socket.receive_json()
        assert caught.value.code == 4001 and "reload" in caught.value.reason


# ----------------------------------------------------------------------------------------- files


def bomb(side):
    """Return a PNG of a few kilobytes that claims to have side * side pixels."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(min(side, 1000) * 1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"", 400, "empty"),
        (b"not an image", 415, "not a PNG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "not a PNG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", 415, "not a PNG"),
        (b"II*\0" + bytes(100), 415, "from the shell"),
        (b"\x93NUMPY" + bytes(100), 415, "from the shell"),
        (png(np.eye(40, dtype=np.uint8))[:60], 415, "damaged"),
        (png(np.zeros((400, 400), np.uint8)), 413, "0.1 million pixels"),
        (bomb(1000), 413, "pixels"),
        (bomb(10_000), 413, "pixels"),  # more than Pillow itself likes
        (bomb(60_000), 413, "pixels"),  # more than it allows
        (png(np.zeros((2, 9), np.uint8)), 400, "too few"),
        (bytes(200_001), 413, "MiB"),
    ],
)
def test_files_that_are_refused(client, data, status, words):
    with connect(client) as socket:
        tab = socket.receive_json()["tab"]
        assert words in one_line(upload(client, tab, data), status)


def test_a_length_that_lies_or_lacks(client):
    with connect(client) as socket:
        tab = socket.receive_json()["tab"]

        def parts():
            yield b"x" * 1000

        one_line(upload(client, tab, parts()), 411)  # chunked
        answer = upload(client, tab, b"x", **{"content-length": str(10**30)})
        one_line(answer, 413)
        long = upload(client, tab, bytes(300_000), **{"content-length": "5"})
        assert long.status_code in (413, 415)


def test_files_for_a_tab_that_is_gone(client):
    with connect(client) as socket:
        tab = socket.receive_json()["tab"]
    one_line(upload(client, tab, b"x"), 404)
    one_line(client.get(f"/{TOKEN}/export/{tab}/mask.png", headers=OWN), 404)


# -------------------------------------------------------------------------------------- messages

BAD = [
    "", "{", "null", "[]", "1", '"open"', "{}", '{"do": 1}', '{"do": null}', '{"do": "__init__"}',
    '{"do": "open"}', '{"do": "open", "name": 3}', '{"do": "open", "name": "../x"}',
    '{"do": "open", "name": "scene-99999999999"}', '{"do": "mode"}', '{"do": "mode", "mode": []}',
    '{"do": "noise", "rate": 0.1}', '{"do": "weights"}', '{"do": "learn", "from": "etc"}',
    '{"do": "samples", "seed": 1}', '{"do": "hear"}', '{"do": "say"}', '{"do": "run"}',
    '{"do": "' + "x" * 1000 + '"}', "[" * 20_000, '{"do": "open", "name": "\\u0000"}',
    b"", b"\1", b"\1\0\0\0", struct.pack("<3I", 2, 1, 1), struct.pack("<6I", 1, 1, 1, 0, 1, 1),
]  # fmt: skip


def answer_to(socket, message):
    socket.send_text(message) if isinstance(message, str) else socket.send_bytes(message)
    found = socket.receive_json()
    assert found["is"] == "error" and "\n" not in found["line"] and len(found["line"]) > 10
    return found["line"]


def test_bad_messages_have_one_line_each_and_the_tab_lives(client):
    with connect(client) as socket:
        socket.receive_json()
        for message in BAD:
            answer_to(socket, message)


def heard(socket, kind):
    """Return the first message of a kind, and all before it."""
    before = []
    while True:
        message = socket.receive()
        text = message.get("text")
        if text is None:
            data = message["bytes"]
            size = int.from_bytes(data[:4], "little")
            text = data[4 : 4 + size].decode()
        before.append(text)
        if f'"is": "{kind}"' in text:
            return text, before


@pytest.mark.parametrize(
    "numbers",
    [
        (1, 1, 1, 5), (1, 1, 1, 0, 1), (1, 1, 1, 0, 0, 1), (1, 1, 1, 0, 1, 3),
        (1, 1, 1, 2**32 - 1, 2**32 - 1, 1), (1, 1, 1, 76_799, 2, 1), (9, 1, 1),
        (1, 1, 1, *(0, 76_800, 1) * 5),
    ],
)  # fmt: skip
def test_bad_strokes(client, numbers):
    with connect(client) as socket:
        socket.receive_json()
        socket.send_json({"do": "open", "name": "scene-0"})
        heard(socket, "wanted")
        answer_to(socket, struct.pack(f"<{len(numbers)}I", *numbers))


def test_the_port_that_browsers_leave_out():
    with TestClient(make_app(TOKEN, 80), base_url="http://127.0.0.1") as found:
        assert found.get(f"/{TOKEN}/").status_code == 200
    with TestClient(make_app(TOKEN, PORT), base_url="http://127.0.0.1") as found:
        assert found.get(f"/{TOKEN}/").status_code == 421


def test_bad_wishes_in_clean(client):
    with connect(client) as socket:
        socket.receive_json()
        socket.send_json({"do": "open", "name": "silhouette-0"})
        heard(socket, "model")
        for name, value in (("rate", "NaN"), ("rate", "0.9"), ("rate", "true"), ("rate", '"1"')):
            socket.send_text(f'{{"do": "noise", "{name}": {value}}}')
            assert "rate must be" in heard(socket, "error")[0]
        for value in ("Infinity", "-1", "1e999", "1" + 400 * "0", "null", "[]"):
            socket.send_text(
                f'{{"do": "weights", "horizontal": {value}, "vertical": 1, "bias": 0}}'
            )
            assert "horizontal must be" in heard(socket, "error")[0]


def test_newer_wishes_replace_older_ones_and_tabs_are_apart(client):
    with connect(client) as first, connect(client) as second:
        tab = first.receive_json()["tab"]
        second.receive_json()
        first.send_json({"do": "open", "name": "silhouette-0"})
        second.send_json({"do": "open", "name": "scene-0"})
        for percent in range(5, 25):
            first.send_json({"do": "noise", "rate": percent / 100})
        heard(second, "wanted")
        last, before = heard(first, "marginals")
        while '"final": true' not in last:
            last, more = heard(first, "marginals")
            before += more
        models = [text for text in before if '"is": "model"' in text]
        assert len(models) < 10 and '"rate": 0.24' in models[-1]
        answer = client.get(f"/{TOKEN}/export/{tab}/mask.png", headers=OWN)
        assert answer.status_code == 200 and answer.headers["content-type"] == "image/png"
        assert "attachment" in answer.headers["content-disposition"]
        assert Image.open(io.BytesIO(answer.content)).size == (160, 120)


def test_random_messages_never_end_a_tab(client):
    rng = random.Random(0)
    words = ["do", "open", "mode", "noise", "weights", "rate", "name", "seed", "from", "samples"]

    def value(depth=0):
        kinds = [rng.choice(words), rng.random() * 10 ** rng.randint(-5, 300), None, True, -1]
        if depth < 2:
            kinds += [[value(depth + 1)], {rng.choice(words): value(depth + 1)}]
        return rng.choice(kinds)

    with connect(client) as socket:
        socket.receive_json()
        for _ in range(150):
            if rng.random() < 0.3:
                socket.send_bytes(rng.randbytes(rng.randint(0, 40)))
            else:
                socket.send_json({"do": rng.choice(words), rng.choice(words): value()})
        socket.send_text("last")
        line = heard(socket, "error")
        while "not JSON" not in line[0]:
            line = heard(socket, "error")
