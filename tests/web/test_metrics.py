"""`/metrics`, read by Prometheus' own parser."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from prometheus_client.parser import text_string_to_metric_families

from inference.tally import TTFT_BOUNDS_S, Counts, EngineSnapshot
from inference.types import FinishReason, ModelPhase
from tests.web.client import WAIT_S
from tests.web.serving import Served
from web.metrics import exposition

Serve = Callable[..., Served]


def read(text: str) -> Mapping[tuple[str, ...], float]:
    """Values by the sample's name and its labels' values."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = {(sample.name, *sample.labels.values()): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


def scrape(served: Served, replies: int) -> Mapping[tuple[str, ...], float]:
    """The metrics, once so many replies have begun: they are told of between two steps."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        response = served.get("/metrics")
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        found = read(response.text)
        settled = found["ondol_replies_running",] == 0
        if settled and found["ondol_time_to_first_token_seconds_count",] == replies:
            return found
    raise AssertionError(f"{replies} replies were not told of: {found}")


def test_a_scraper_reads_what_the_replies_cost_and_nothing_that_they_say(serve: Serve) -> None:
    served = serve()
    client = served.ready_client()
    first, _ = client.say_and_wait("a-very-secret-question")
    ids = {"conversation_id": first["conversation_id"], "parent_id": first["reply_id"]}
    client.say_and_wait("another-secret", **ids)
    found = scrape(served, replies=2)
    assert found["ondol_completion_tokens_total",] == len("a-very-secret-question") + len("another-secret")
    assert found["ondol_replies_total", "stop"] == 2
    assert found["ondol_replies_total", "abort"] == 0
    assert found["ondol_cached_tokens_total",] > 0
    assert (
        found["ondol_prefill_tokens_total",]
        == found["ondol_prompt_tokens_total",] - found["ondol_cached_tokens_total",]
    )
    assert found["ondol_kv_used_bytes",] == found["ondol_kv_promised_bytes",] == 0
    assert found["ondol_kv_bytes_per_token",] == 100
    assert found["ondol_prefix_cache_bytes",] > 0
    assert found["ondol_process_resident_bytes",] > 2**20
    assert found["ondol_model_info", "scripted", "none", "Double"] == 1
    text = served.get("/metrics").text
    assert "secret" not in text
    assert first["conversation_id"] not in text


def test_the_histogram_s_classes_are_cumulative_and_its_sum_exact() -> None:
    per_class = tuple(range(len(TTFT_BOUNDS_S) + 1))
    seen = EngineSnapshot(
        ModelPhase.LOADING,
        None,
        None,
        counts=Counts(ttft_counts=per_class, ttft_s=12.5),
        ended={FinishReason.STOP: 3},
    )
    found = read(exposition(seen, 1).decode())
    assert found["ondol_time_to_first_token_seconds_bucket", "0.1"] == 0 + 1
    assert found["ondol_time_to_first_token_seconds_bucket", "+Inf"] == sum(per_class)
    assert found["ondol_time_to_first_token_seconds_sum",] == 12.5
    assert found["ondol_model_ready",] == 0
    assert ("ondol_weights_bytes",) not in found


def test_on_a_shared_server_a_scraper_needs_a_session(serve: Serve) -> None:
    served = serve(lan=True)
    assert served.get("/metrics").status_code == 401
    assert served.get("/metrics", Cookie=served.guest()).status_code == 200
    assert serve().get("/metrics", Host="evil.test").status_code == 403
