"""Alerts, dashboard and canned queries: they ask for what there is, and the programs that read them do."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from sleepwatch.daemon.metrics import Metrics
from tests.daemon.test_metrics import FIGURES

PACKAGING = Path(__file__).parents[2] / "packaging"
RULES = PACKAGING / "prometheus" / "sleepwatch.rules.yml"
RULES_TEST = PACKAGING / "prometheus" / "sleepwatch.test.yml"
DASHBOARD = PACKAGING / "grafana" / "sleepwatch.json"
QUERIES = PACKAGING / "datasette" / "metadata.yaml"
_SELECTOR = re.compile(r"(sleepwatch_\w+)(?:\{([^}]*)\})?")
_OF_THE_SCRAPE = {"instance", "job"}

promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Every metric's labels, by its name, as the daemon's own textfile has them."""
    file = tmp_path_factory.mktemp("metrics") / "sleepwatch.prom"
    metrics = Metrics()
    metrics.write_to(file)
    metrics.publish(FIGURES, 0)
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(file.read_text()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    metrics.close()
    return found


def _alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def _expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in _alerts())
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


@pytest.mark.parametrize("expression", list(_expressions()))
def test_an_expression_asks_for_metrics_and_labels_that_there_are(
    expression: str, offered: dict[str, set[str]]
) -> None:
    selectors = _SELECTOR.findall(expression)
    assert selectors
    labels = {*_OF_THE_SCRAPE}
    for name, matchers in selectors:
        assert name in offered
        labels |= offered[name]
        assert set(re.findall(r"(\w+)\s*[=!]~?", matchers)) <= offered[name] | _OF_THE_SCRAPE
    for group in re.findall(r"\bby \(([^)]*)\)", expression):
        assert {one.strip() for one in group.split(",")} <= labels


def test_an_alert_says_what_is_wrong_and_what_to_do() -> None:
    for rule in _alerts():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_each_alert_is_tested() -> None:
    text = RULES_TEST.read_text()
    for rule in _alerts():
        assert re.search(rf'"{rule["alert"]}"', text), rule["alert"]


def test_the_docs_name_each_alert() -> None:
    page = (PACKAGING.parent / "docs" / "metrics.md").read_text()
    assert re.findall(r"^\| `([A-Z]\w+)` \|", page, re.MULTILINE) == [rule["alert"] for rule in _alerts()]


@promtool
@pytest.mark.parametrize("command", [("check", "rules", RULES), ("test", "rules", RULES_TEST)], ids=["check", "test"])
def test_promtool_agrees(command: tuple[str | Path, ...]) -> None:
    done = subprocess.run(["promtool", *map(str, command)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_has_its_panels_side_by_side() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert panel["title"] and panel["description"]
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Iterator[sqlite3.Connection]:
    """What a scan of real servers' logs leaves."""
    path = tmp_path_factory.mktemp("database") / "sleepwatch.db"
    logs = (
        corpus / "b11368-default-gaveup" / "server.log",
        corpus / "x11549-crash-default" / "server.log",
        corpus / "journal-two-units-short" / "journal.short",
    )
    command = [sys.executable, "-m", "sleepwatch", "scan", "--db", path, *logs]
    subprocess.run([str(one) for one in command], cwd=PACKAGING.parent, check=True, capture_output=True, timeout=120)
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    yield connection
    connection.close()


def _queries() -> dict[str, dict[str, str]]:
    queries: dict[str, dict[str, str]] = yaml.safe_load(QUERIES.read_text())["databases"]["sleepwatch"]["queries"]
    return queries


def _ask(database: sqlite3.Connection, name: str) -> list[tuple[Any, ...]]:
    (an_id,) = database.execute("SELECT id FROM incident WHERE kind = 'hung-request'").fetchone()
    return database.execute(_queries()[name]["sql"], {"id": an_id[:8]}).fetchall()


@pytest.mark.parametrize("name", _queries())
def test_a_canned_query_runs_on_a_real_database(database: sqlite3.Connection, name: str) -> None:
    rows = _ask(database, name)
    assert rows or name in ("open_now", "not_seen", "wakes", "told")  # a scan does neither


def test_the_queries_count_what_the_clients_saw(database: sqlite3.Connection) -> None:
    kinds: dict[str, int] = {}
    for _, kind, incidents, *_ in _ask(database, "by_server_and_kind"):
        kinds[kind] = kinds.get(kind, 0) + incidents
    assert kinds == {"hung-request": 6 + 2, "sleep-crash": 12 + 4}
    assert sum(row[1] for row in _ask(database, "by_day")) == 6 + 2
    assert sum(row[2] + row[3] for row in _ask(database, "by_build")) == 6 + 2 + 12 + 4
