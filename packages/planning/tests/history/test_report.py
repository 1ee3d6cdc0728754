"""How a cluster was used over days, by a server that answers as Prometheus does."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from packages.planning.tests.history.answers import Answers
from tests.cli.conftest import Ended

from numakube_planning.history.cluster_report import ends_of
from numakube_planning.history.prometheus import DAY

Run = Callable[..., Ended]
CORES = "numakube_zone_allocatable"


@pytest.fixture
def prometheus() -> Iterator[Answers]:
    """A server with three days of a cluster; of the second it has no record of the exporters."""
    with Answers() as server:
        server.series = {
            CORES: [
                ({"resource": "cpu"}, [100, None, 100]),
                ({"resource": "nvidia.com/gpu"}, [10, None, 10]),
                ({"resource": "hugepages-1Gi"}, [1 << 30, None, 1 << 30]),
            ],
            "numakube_zone_available": [
                ({"resource": "cpu"}, [40, None, 20]),
                ({"resource": "nvidia.com/gpu"}, [5, None, 2]),
                ({"resource": "hugepages-1Gi"}, [0, None, 0]),
            ],
            "numakube_zone_stranded": [({"resource": "nvidia.com/gpu"}, [2, None, 1])],
            "scheduler_schedule_attempts_total": [
                ({"result": "scheduled"}, [1200, None, 800]),
                ({"result": "error"}, [3, None, 0]),
            ],
            "sli_duration_seconds_bucket": [({}, [0.25, "NaN", 75])],
            "scheduler_unschedulable_pods": [
                ({"plugin": "NodeResourceTopologyMatch"}, [4, None, 2]),
                ({"plugin": "NodeAffinity"}, [0, None, 1]),
            ],
            "numakube_kubelet_rejections_total": [
                ({"reason": "TopologyAffinityError"}, [0, None, 2])
            ],
            "numakube_misaligned_pods": [({"cause": "best-effort"}, [3, None, 3])],
        }
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_days_are_whole_ones_in_utc() -> None:
    now = datetime(2026, 11, 19, 14, 30, tzinfo=UTC).timestamp()
    ends = ends_of(now, 3)
    assert [datetime.fromtimestamp(end, UTC).isoformat()[:13] for end in ends] == [
        "2026-11-17T00", "2026-11-18T00", "2026-11-19T00",
    ]  # fmt: skip
    assert {later - sooner for sooner, later in itertools.pairwise(ends)} == {DAY}


def test_a_table_has_a_line_for_each_day_and_none_for_what_is_not_known(
    numakube: Run, prometheus: Answers
) -> None:
    ended = numakube("report", "--prometheus", prometheus.url, "--days", "3")
    assert (ended.code, ended.err) == (0, "")
    lines = [line.split() for line in ended.out.splitlines()]
    assert lines[2] == ["DAY", "CPU", "STRANDED", "GPU", "STRANDED"]
    assert [line[1:] for line in lines[3:6]] == [
        ["60%", "0%", "50%", "20%"], ["-", "-", "-", "-"], ["80%", "0%", "80%", "10%"],
    ]  # fmt: skip
    assert lines[7] == [
        "DAY",
        "PLACED",
        "WAIT",
        "WAITING",
        "REFUSED",
        "BY",
        "REJECTED",
        "MISALIGNED",
    ]
    assert [line[1:] for line in lines[8:11]] == [
        ["1200", "0.2s", "4", "NodeResourceTopologyMatch", "0", "3"],
        ["-"] * 6,
        ["800", "75s", "3", "NodeResourceTopologyMatch", "2", "3"],
    ]
    assert "Of 1 of 3 days no exporters are recorded; they count for nothing here." in ended.out
    assert "15% of gpu was free and of no use" in ended.out
    assert "3.0 pods waited on average because of NodeResourceTopologyMatch" in ended.out
    assert "Kubelets rejected 2 pods after they were bound (TopologyAffinityError)." in ended.out
    assert "3.0 pods on average wanted alignment and did not have it" in ended.out


def test_a_document_has_everything(numakube: Run, prometheus: Answers) -> None:
    ended = numakube("report", "--prometheus", prometheus.url, "--days", "3", "-o", "json")
    document = json.loads(ended.out)
    assert (document["kind"], document["source"]) == ("ClusterReport", prometheus.url)
    first, second, _ = document["days"]
    assert first["resources"]["hugepages-1Gi"] == {
        "allocatable": 1 << 30, "used": 1 << 30, "stranded": 0,
    }  # fmt: skip
    assert first["waiting"] == {"NodeResourceTopologyMatch": 4}
    assert (second["resources"], second["placed"], second["medianWaitSeconds"]) == ({}, None, None)


def test_without_a_record_of_schedulers_nobody_is_said_to_have_been_refused_or_not(
    numakube: Run, prometheus: Answers
) -> None:
    prometheus.series = {
        name: series for name, series in prometheus.series.items() if name.startswith("numakube_z")
    }
    ended = numakube("report", "--prometheus", prometheus.url, "--days", "3")
    assert [line.split()[1:] for line in ended.out.splitlines()[8:11]] == [["-"] * 6] * 3
    assert "Of 3 of 3 days no schedulers are recorded" in ended.out
    document = numakube("report", "--prometheus", prometheus.url, "--days", "3", "-o", "json")
    assert json.loads(document.out)["days"][0]["rejected"] is None


def test_a_week_is_asked_for_day_by_day_and_of_our_own_schedulers_alone(
    numakube: Run, prometheus: Answers
) -> None:
    prometheus.series = {CORES: [({"resource": "cpu"}, [1] * 7)]}
    assert numakube("report", "--prometheus", f"{prometheus.url}/prom/", "--weekly").code == 0
    assert {int(asked["end"]) - int(asked["start"]) for asked in prometheus.asked} == {6 * DAY}
    assert {asked["step"] for asked in prometheus.asked} == {str(DAY)}
    assert set(prometheus.paths) == {"/prom/api/v1/query_range"}
    shared = [asked["query"] for asked in prometheus.asked if "scheduler_" in asked["query"]]
    assert len(shared) == 3
    assert all('numakube_build_info{component="scheduler"}' in query for query in shared)


def test_a_service_is_asked_through_the_api_server(numakube: Run, prometheus: Answers) -> None:
    prometheus.series = {CORES: [({"resource": "cpu"}, [1])]}
    where = ("--prometheus", "monitoring/prometheus-k8s", "--server", prometheus.url)
    assert numakube("report", *where, "--days", "1").code == 0
    assert set(prometheus.paths) == {
        "/api/v1/namespaces/monitoring/services/prometheus-k8s:9090/proxy/api/v1/query_range"
    }


def test_a_token_is_shown_and_never_printed(
    numakube: Run, prometheus: Answers, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    prometheus.raw = (403, b'{"status":"error","error":"no"}')
    line = ("report", "--prometheus", prometheus.url, "--prometheus-token-file", file)
    ended = numakube(*line)
    assert (ended.code, set(prometheus.seen)) == (1, {"Bearer secret"})
    assert "secret" not in ended.err
    over_http = numakube("report", "--prometheus", "http://prom.example", *line[3:])
    assert (over_http.code, "over https only" in over_http.err) == (2, True)


@pytest.mark.parametrize(
    ("code", "body", "told"),
    [
        (200, b"<html>", "does not answer as Prometheus does"),
        (200, b"{}", "does not answer as Prometheus does"),
        (200, b'{"status":"error","error":"too\\u001b[2J many"}', "too"),
        (200, b'{"status":"success","data":{"resultType":"vector"}}', "cannot be read"),
        (400, b'{"status":"error","error":"parse error"}', "refuses"),
        (
            200,
            b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
            "has no numakube_zone_allocatable of these days: does it scrape the exporters?",
        ),
        (
            200,
            json.dumps(
                {"status": "success", "data": {"resultType": "matrix", "result": [{}] * 1001}}
            ).encode(),
            "cannot be read",
        ),
    ],
)
def test_what_is_no_answer_is_an_error_in_a_line(
    code: int, body: bytes, told: str, numakube: Run, prometheus: Answers
) -> None:
    prometheus.raw = (code, body)
    ended = numakube("report", "--prometheus", prometheus.url)
    assert (ended.code, ended.out) == (1, "")
    assert told in ended.err
    assert len(ended.err.splitlines()) == 1
    assert "\x1b" not in ended.err


def test_who_is_not_there_is_named(numakube: Run) -> None:
    ended = numakube("report", "--prometheus", "http://127.0.0.1:1")
    assert ended.code == 3
    assert "127.0.0.1:1 refused the connection" in ended.err
    assert "API server" not in ended.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--prometheus", "prometheus"], "neither a URL nor NAMESPACE/SERVICE"),
        (["--prometheus", "ftp://x"], "neither a URL nor NAMESPACE/SERVICE"),
        (["--prometheus", "http://u:p@x"], "no password here"),
        (["--prometheus", "a/b", "--prometheus-ca", "ca.crt"], "go with a URL"),
        (["--prometheus", "a/b", "--weekly", "--days", "3"], "--weekly is --days 7"),
        ([], "--prometheus"),
    ],
)
def test_wrong_usage_ends_with_two(words: list[str], told: str, numakube: Run) -> None:
    ended = numakube("report", *words)
    assert (ended.code, told in ended.err) == (2, True)
