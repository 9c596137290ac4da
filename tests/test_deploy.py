"""What docs/deploy has: its steps are run, and its files read by the programs that they are for."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from pathlib import Path

import pytest

for needed in ("apsw", "fastapi", "onnxruntime", "PIL", "typer"):
    pytest.importorskip(needed, reason="the service needs the extra `serve`")

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "docs" / "deploy"
XLDA = [sys.executable, "-c", "from xlda.cli import main; main()"]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def first_two(service):
    """Lines that a service says at the start of a new model."""
    return [service.stdout.readline() for _ in range(2)]


def instructions(text):
    """Of a container file: pairs of a word such as RUN, and what follows it."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.M))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


class Container:
    """A folder that stands for the file system of a container, with an environment for its Python."""

    def __init__(self, folder, port):
        self.root, self.port, self.workdir = folder / "root", str(port), "/"
        environment = folder / "environment"
        venv.create(environment, with_pip=True)
        self._lend_packages(environment)
        self._pretend("useradd", folder / "tools")
        self._pretend("chown", folder / "tools")
        self.root.mkdir()
        path = os.pathsep.join(map(str, (folder / "tools", environment / "bin", os.environ["PATH"])))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XLDA_", "PYTHON"))}
        self.settings = {**kept, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self.check = self.command = None

    def _lend_packages(self, environment):
        """All that is installed here is there as well, behind what is installed there."""
        [packages] = environment.glob("lib/python*/site-packages")
        own = [sysconfig.get_path("purelib"), *site.getsitepackages()]
        (packages / "lent.pth").write_text("\n".join(dict.fromkeys(own)))

    def _pretend(self, name, tools):
        """A command that only root may run: its words must be some that it knows."""
        tools.mkdir(exist_ok=True)
        (tools / name).write_text('#!/bin/sh\nexec true "$@"\n')
        (tools / name).chmod(0o755)

    def here(self, text):
        """Text with the paths and the port of the container as they are here."""
        return re.sub(r"/(?=(src|data)\b)(?<![\w./]/)", f"{self.root}/", text).replace("8765", self.port)

    def follow(self, word, rest):
        """Do what one line says."""
        if word == "COPY":
            *sources, target = rest.split()
            for source in sources:
                self._copy(ROOT / source, Path(self.here(target)), target.endswith("/"))
        elif word == "RUN":
            done = self.run(["sh", "-e", "-c", self.here(rest)])
            if "No matching distribution found for hatchling" in done.stderr:
                pytest.skip("needs a package index, to build with hatchling")
            assert done.returncode == 0, f"RUN {rest}\n{done.stdout}{done.stderr}"
            assert "does not provide the extra" not in done.stdout + done.stderr
        elif word == "ENV":
            name, value = rest.split("=", 1)
            self.settings[name] = self.here(value)
        elif word == "WORKDIR":
            self.workdir = rest
        elif word == "HEALTHCHECK":
            self.check = json.loads(self.here(rest.split("CMD", 1)[1]))
        elif word == "CMD":
            self.command = json.loads(rest)

    def _copy(self, source, target, is_into):
        assert source.exists(), f"COPY of {source.name}, which is not there"
        place = target / source.name if is_into else target
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place)

    def run(self, command):
        folder = Path(self.here(self.workdir)) if self.workdir != "/" else self.root
        return subprocess.run(command, cwd=folder, env=self.settings, capture_output=True, text=True)


def test_the_steps_of_the_container_file(tmp_path):
    lines = instructions((DEPLOY / "Containerfile").read_text())
    port = free_port()
    container = Container(tmp_path, port)
    for word, rest in lines:
        container.follow(word, rest)
    assert {word for word, _ in lines} >= {"FROM", "USER", "VOLUME", "HEALTHCHECK", "STOPSIGNAL"}
    assert dict(lines)["FROM"] == "python:3.12-slim"

    where = container.run(["python", "-c", "import xlda; print(xlda.__file__)"]).stdout
    assert where.startswith(str(tmp_path / "environment"))
    token = container.run(["xlda", "token", "add", "till", "--scope", "teach"])
    assert token.returncode == 0, token.stderr
    assert container.run(container.check).returncode != 0  # nobody is there yet

    settings = {**container.settings, "XLDA_PORT": str(port)}
    service = subprocess.Popen(
        container.command, cwd=container.root / "data", env=settings, stdout=subprocess.PIPE, text=True
    )
    try:
        said = first_two(service)
        assert "is served at" in said[-1]
        assert container.run(container.check).returncode == 0
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/model", headers={"Authorization": f"Bearer {token.stdout.strip()}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert json.load(answer)["takes_photos"]
    finally:
        service.send_signal(getattr(signal, dict(lines)["STOPSIGNAL"]))
        service.stdout.close()
        assert service.wait(timeout=15) == 0
    assert (container.root / "data" / "shop.xlda.service" / "log.sqlite").exists()


def test_the_unit_of_systemd():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "xlda.service")
    service = unit["Service"]
    expected = {"ProtectSystem": "strict", "NoNewPrivileges": "yes", "Restart": "on-failure", "User": "xlda"}
    assert expected.items() <= dict(service).items()
    assert int(service["TimeoutStopSec"]) > 10
    command = shlex.split(service["ExecStart"])
    assert command[0].endswith("/bin/xlda")
    done = subprocess.run([*XLDA, *command[1:], "--help"], capture_output=True, text=True)
    assert done.returncode == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit(tmp_path):
    text = (DEPLOY / "xlda.service").read_text().replace("/opt/xlda/bin/xlda", "/bin/true")
    (tmp_path / "xlda.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "xlda.service"], capture_output=True, text=True
    )
    about_it = [line for line in done.stderr.splitlines() if "xlda.service" in line]
    assert about_it == []


NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


@pytest.mark.skipif(NGINX is None or shutil.which("openssl") is None, reason="needs nginx and openssl")
def test_behind_nginx_under_a_sub_path(tmp_path):
    port, own_port = free_port(), free_port()
    settings = ["--port", str(own_port), "--allow-host", "shop.example", "--trusted-proxy", "127.0.0.1"]
    service = subprocess.Popen(
        [*XLDA, "serve", "shop.xlda", *settings], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    nginx = subprocess.Popen([NGINX, "-p", tmp_path, "-c", nginx_settings(tmp_path, port, own_port)])
    try:
        assert "is served at" in first_two(service)[-1]
        wait_for(port)
        assert b"An xlda service" in asked(port, "/shop/")[1]
        assert b"All calls" in asked(port, "/shop/")[1]
        photo = drawn_photo(tmp_path)
        status, body = asked(port, "/shop/v1/samples?label=kiwi", photo, "image/jpeg")
        assert (status, json.loads(body)["seq"]) == (201, 1)
        assert next_event(port, lambda: asked(port, "/shop/v1/samples?label=lime", photo, "image/jpeg")) == 2
        status, body = asked(port, "/shop/v1/predict", bytes(20_500_000), "image/jpeg")
        assert (status, json.loads(body)["status"]) == (413, 413)
    finally:
        nginx.terminate()
        nginx.wait(timeout=10)
        service.terminate()
        service.stdout.close()
        assert service.wait(timeout=15) == 0


def nginx_settings(folder, port, own_port):
    """The example with ports and certificate of ours, within as little as nginx needs."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    words = (
        f"req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 2 -subj /CN=shop.example"
    )
    subprocess.run(["openssl", *words.split()], check=True, capture_output=True)
    example = (DEPLOY / "nginx.conf").read_text()
    for old, new in {
        "/etc/ssl/shop.example.pem": certificate,
        "/etc/ssl/shop.example.key": key,
        "listen 443": f"listen 127.0.0.1:{port}",
        "127.0.0.1:8765": f"127.0.0.1:{own_port}",
    }.items():
        assert old in example
        example = example.replace(old, str(new))
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    who = "user root; " if os.geteuid() == 0 else ""  # whose folder it is
    file.write_text(
        f"{who}daemon off; pid {folder}/pid; error_log {folder}/errors;\nevents {{}}\n"
        f"http {{ access_log off;\n{places}{example}}}\n"
    )
    return file


def drawn_photo(folder):
    import numpy as np
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (1200, 1600, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "photo.jpg")
    content = (folder / "photo.jpg").read_bytes()
    assert len(content) > 1_100_000  # more than nginx takes by itself
    return content


def connection(port):
    """To the proxy, as somebody would come who calls it by its name."""
    import http.client
    import ssl

    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=unchecked)


def asked(port, path, body=None, kind=None):
    headers = {"Host": "shop.example", **({} if kind is None else {"Content-Type": kind})}
    there = connection(port)
    try:
        there.request("GET" if body is None else "POST", path, body, headers)
        answer = there.getresponse()
        return answer.status, answer.read()
    finally:
        there.close()


def next_event(port, do):
    """The number of the event that is told of once something was done."""
    there = connection(port)
    try:
        there.request("GET", "/shop/v1/events", headers={"Host": "shop.example"})
        answer = there.getresponse()
        assert answer.readline().startswith(b": events")
        do()
        lines = iter(answer.readline, b"")
        return int(next(line for line in lines if line.startswith(b"id: "))[4:])
    finally:
        there.close()


def wait_for(port):
    until = time.monotonic() + 10.0
    while time.monotonic() < until:
        with socket.socket() as there:
            if there.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("nginx does not listen")
