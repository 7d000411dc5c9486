"""JupyterLab as `make lab` opens it, in a real browser, for the tests beside this file."""

import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARTEFACTS = Path(__file__).parent / "artefacts"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
MISSING = {"no Chromium found": CHROMIUM is None, "no make found": shutil.which("make") is None}


def lab_command(port: int, token: str) -> list[str]:
    """What `make lab` would run, with this Python."""
    options = f"--no-browser --ServerApp.port={port} --ServerApp.port_retries=0 --IdentityProvider.token={token}"
    make = ["make", "--dry-run", "--old-file=.venv/ready", "lab", f"RUN={sys.executable}", f"LAB_OPTIONS={options}"]
    command = subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return shlex.split(command.replace("\\\n", " "))


def wait_for(ready, seconds: float, what: str):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := ready():
            return result
        time.sleep(0.1)
    raise TimeoutError(f"{what} took more than {seconds} s")


@contextmanager
def served(folder: Path, part: str):
    """JupyterLab with no settings of anybody, on a copy of one part of the project: yields its address and token."""
    shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns(".*"))
    homes = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "JUPYTERLAB_SETTINGS_DIR"]
    environment = {**os.environ, **{home: str(folder / home.lower()) for home in homes}}
    environment.setdefault("MINIRL_FAST", "1")
    no_questions = folder / "jupyterlab_settings_dir/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    no_questions.parent.mkdir(parents=True)
    no_questions.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    token = secrets.token_hex(16)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with open(folder / "lab.log", "w") as log:
        server = subprocess.Popen(lab_command(port, token), cwd=folder, env=environment, stdout=log, stderr=log)

    def answers():
        assert server.poll() is None, (folder / "lab.log").read_text()
        try:
            with urllib.request.urlopen(f"{address}/api/status?token={token}", timeout=5) as response:
                return response.status == 200
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    try:
        wait_for(answers, 60, "starting JupyterLab")
        yield address, token
    finally:
        server.send_signal(signal.SIGINT)
        server.send_signal(signal.SIGINT)
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def opened(url: str):
    """A fresh browser on a notebook, once its kernel is idle; errors of the page are in `page.errors`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(30_000)
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(url)
        page.locator(".jp-Notebook h1").first.wait_for()
        page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
        yield page
        browser.close()


def shoot(part, name: str) -> None:
    ARTEFACTS.mkdir(exist_ok=True)
    part.screenshot(path=ARTEFACTS / f"{name}.png")


def choose(page, menu: str, item: str) -> None:
    page.get_by_role("menuitem", name=menu, exact=True).click()
    page.get_by_role("menuitem", name=item, exact=True).click()
