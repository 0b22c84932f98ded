"""A server on 127.0.0.1 that answers as CelesTrak's gp.php does, well and badly."""

import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from gp_samples import ANALYST, ISS, NOMINAL, TEXTS, TLE

NOT_UPDATED = (
    "GP data has not updated since your last successful download of GROUP=updated at 2026-08-16 10:00:00 UTC.\n"
    "Data is updated once every 2 hours."
)
SATELLITES = {"25544": ISS, "799501621": NOMINAL, "270449": ANALYST}


class CelesTrak:
    """Counts what it is asked, and how many questions are in flight at once."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.agents: set[str] = set()
        self.in_flight = self.most_in_flight = 0
        self.updated = True
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with outer._lock:
                    outer.asked.append(self.path)
                    outer.agents.add(self.headers["User-Agent"])
                    outer.in_flight += 1
                    outer.most_in_flight = max(outer.most_in_flight, outer.in_flight)
                try:
                    outer.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                finally:
                    with outer._lock:
                        outer.in_flight -= 1

            def log_message(self, *_) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/NORAD/elements/gp.php"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def use_tls(self, certificate: str) -> None:
        """Prove who it is with a certificate that nobody vouches for."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.server.handle_error = lambda *_: None  # the client hangs up
        self.url = self.url.replace("http:", "https:")

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        query = {k: v[0] for k, v in parse_qs(urlsplit(request.path).query).items()}
        form = query.get("FORMAT", "CSV").lower()
        if "CATNR" in query:
            satellite = SATELLITES.get(query["CATNR"])
            if satellite is None or (form == "tle" and len(query["CATNR"]) > 5):
                return send(request, 404, b"No GP data found")
            return send(request, 200, TLE.encode() if form == "tle" else TEXTS[form](satellite).encode())
        if "NAME" in query:
            return send(request, 200, TEXTS[form](ISS).encode() if query["NAME"] == "ISS (Z" else b"")
        play = getattr(self, f"play_{query.get('GROUP', '').replace('-', '_')}", None)
        if play is None:
            text = f'Invalid query: "{urlsplit(request.path).query}" (GROUP={query.get("GROUP")} not found)'
            return send(request, 200, text.encode())
        return play(request, TEXTS.get(form, TEXTS["csv"])(ISS, NOMINAL, ANALYST).encode())

    def play_deaf(self, request, data) -> None:
        """Send CSV whatever format is asked for."""
        send(request, 200, TEXTS["csv"](ISS).encode())

    def play_stations(self, request, data) -> None:
        send(request, 200, data)

    def play_lingering(self, request, data) -> None:
        time.sleep(0.2)
        send(request, 200, data)

    def play_updated(self, request, data) -> None:
        if self.updated:
            return send(request, 200, data)
        return send(request, 403, NOT_UPDATED.encode())

    def play_html(self, request, data) -> None:
        send(
            request,
            200,
            b"<html><head><title>x</title></head><body><h1>Down</h1>for maintenance</body></html>",
        )

    def play_broken(self, request, data) -> None:
        send(request, 500, b"<h1>Internal Server Error</h1>")

    def play_elsewhere(self, request, data) -> None:
        send(request, 301, b"", Location=f"http://localhost:{self.server.server_port}/gp.php?GROUP=stations")

    def play_moved(self, request, data) -> None:
        send(request, 302, b"", Location="/NORAD/elements/gp.php?GROUP=stations&FORMAT=CSV")

    def play_circle(self, request, data) -> None:
        send(request, 302, b"", Location="/NORAD/elements/gp.php?GROUP=circle&FORMAT=CSV")

    def play_latin(self, request, data) -> None:
        send(request, 200, data.replace(b"STARLINK", b"STARL\xefNK"))

    def play_cut(self, request, data) -> None:
        """Promise more than is sent, and hang up."""
        head(request, 200, {"Content-Length": str(len(data))})
        request.wfile.write(data[: len(data) // 2])
        request.close_connection = True

    def play_cut_chunks(self, request, data) -> None:
        head(request, 200, {"Transfer-Encoding": "chunked"})
        request.wfile.write(f"{len(data):x}\r\n".encode() + data[: len(data) // 2])
        request.close_connection = True

    def play_cut_unsaid(self, request, data) -> None:
        """Say no length, so that the client cannot tell the end from a cut."""
        request.close_connection = True
        head(request, 200, {"Connection": "close"})
        request.wfile.write(data[:-20])

    def play_chunks(self, request, data) -> None:
        head(request, 200, {"Transfer-Encoding": "chunked"})
        for part in (data[:100], data[100:]):
            request.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        request.wfile.write(b"0\r\n\r\n")

    def play_gzip(self, request, data) -> None:
        import gzip

        send(request, 200, gzip.compress(data), **{"Content-Encoding": "gzip"})

    def play_bomb(self, request, data) -> None:
        """A small body that unpacks to 5 MB."""
        import gzip

        send(request, 200, gzip.compress(b"A" * 5_000_000, 1), **{"Content-Encoding": "gzip"})

    def play_silent(self, request, data) -> None:
        time.sleep(4)

    def play_drip(self, request, data) -> None:
        """A byte now and then, never silent for long."""
        head(request, 200, {"Connection": "close"})
        for _ in range(300):
            request.wfile.write(b"A")
            request.wfile.flush()
            time.sleep(0.02)

    def play_drip_header(self, request, data) -> None:
        """A header that never ends."""
        request.send_response(200)
        request.flush_headers()
        request.wfile.write(b"X-Long: ")
        for _ in range(300):
            request.wfile.write(b"A")
            request.wfile.flush()
            time.sleep(0.02)

    def play_nowhere(self, request, data) -> None:
        send(request, 302, b"", Location="http://[::1/x")

    def play_no_port(self, request, data) -> None:
        send(request, 302, b"", Location="http://127.0.0.1:99999999/x")

    def play_endless(self, request, data) -> None:
        head(request, 200, {"Connection": "close"})
        while True:
            request.wfile.write(data * 100)


def head(request: BaseHTTPRequestHandler, status: int, headers: dict[str, str]) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()


def send(request: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    head(request, status, {"Content-Length": str(len(body)), **headers})
    request.wfile.write(body)
