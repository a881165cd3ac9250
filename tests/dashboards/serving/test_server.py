"""The server hands out its shelf and nothing else, to those who ask for this machine by a name of its own."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from dashboards.page.html_document import Document
from dashboards.page.sections import page_section
from dashboards.serving.renderer import View
from dashboards.serving.server import application, listening_socket
from dashboards.words.markup import element


@contextmanager
def listening(shelf: Path, *, num_runs: int) -> Iterator[int]:
    """The port of a server of this shelf."""
    with listening_socket("127.0.0.1", 0) as listener:
        app = application(shelf, num_runs=num_runs, host="127.0.0.1")
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def document(words: str) -> Document:
    head = element("header", element("h1", words), id="heading")
    return Document("a page", head, (page_section("one", "One", element("p", words)),), element("p", "foot"))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outside = tmp_path_factory.mktemp("served")
    folder = outside / "shelf"
    for place in (1, 2):
        View(folder / "runs" / str(place), root="../../").put(document(f"run {place}"), words="quiet", running=False)
    View(folder, root="").put(document("both"), words="quiet", running=False)
    (folder / "trials.csv").write_text("a,b\n")
    (folder / "secret").write_text("no ending")
    (outside / "outside.csv").write_text("outside")
    (folder / "link.csv").symlink_to(outside / "outside.csv")
    return folder


@pytest.fixture(scope="module")
def port(shelf: Path) -> Iterator[int]:
    with listening(shelf, num_runs=2) as port:
        yield port


def get(port: int, path: str, *, host: str = "", method: str = "GET") -> tuple[int, str, dict[str, str]]:
    """The answer to a request whose path is sent as it stands."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{port}")
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read().decode(errors="replace")
    connection.close()
    return answer.status, body, {name.lower(): value for name, value in answer.getheaders()}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", "<h1>both</h1>"),
        ("/state", '"pulse": "quiet"'),
        ("/parts/one", "<p>both</p>"),
        ("/trials.csv", "a,b"),
        ("/runs/2/", "<h1>run 2</h1>"),
        ("/runs/2/parts/one", "run 2"),
        ("/page.css", "--paper"),
        ("/live.js", "use strict"),
    ],
)
def test_the_shelf_is_served(port: int, path: str, words: str) -> None:
    status, body, headers = get(port, path)
    assert status == 200
    assert words in body
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/../outside.csv",
        "/%2e%2e/outside.csv",
        "/..%2foutside.csv",
        "/runs/1/../../../outside.csv",
        "/runs/1/%2e%2e%2f%2e%2e%2ftrials.csv",
        "//etc/passwd",
        "/parts/..%2findex",
        "/parts/../trials.csv",
        "/link.csv",
        "/secret",
        "/trials.csv%00.png",
        "/.hidden.csv",
        "/runs/3/",
        "/runs/0/",
        "/runs/-1/",
    ],
)
def test_nothing_outside_the_shelf_is_served(port: int, path: str) -> None:
    status, body, _ = get(port, path)
    assert status in (400, 404)
    assert "outside" not in body
    assert "root:" not in body


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "a b"])
def test_a_name_that_is_not_this_machines_gets_nothing(port: int, host: str) -> None:
    status, body, _ = get(port, "/", host=host or " ")
    assert status in (400, 421)
    assert "both" not in body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}", "192.168.0.7"])
def test_its_own_names_and_any_address_are_answered(port: int, host: str) -> None:
    assert get(port, "/", host=host.format(port=port))[0] == 200


def test_nothing_can_be_sent_to_it(port: int) -> None:
    assert get(port, "/state", method="POST")[0] == 405
    assert get(port, "/state", method="DELETE")[0] == 405


def test_a_page_that_is_not_drawn_yet_loads_itself_again(tmp_path: Path) -> None:
    with listening(tmp_path, num_runs=1) as port:
        status, body, _ = get(port, "/")
        assert status == 200
        assert 'http-equiv="refresh"' in body
        assert get(port, "/state")[0] == 404
        assert get(port, "/runs/1/")[0] == 404
