"""`/metrics`: the engine in numbers, in Prometheus' text format 0.0.4, for those who scrape.

Numbers and the model's own description only: nothing that anybody wrote, no title, no id.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from inference.memory import MemoryPlan
from inference.tally import TTFT_BOUNDS_S, EngineSnapshot
from inference.types import ModelDescription, ModelPhase
from web.services import Services
from web.status_view import process_bytes

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(request: Request) -> Response:
    """What a scraper asks for."""
    services: Services = request.state.services
    body = await run_in_threadpool(exposition, services.engine.snapshot(), process_bytes())
    return Response(body, headers={"Content-Type": CONTENT_TYPE})


def exposition(seen: EngineSnapshot, resident_bytes: int) -> bytes:
    """A snapshot in the text format."""
    from prometheus_client.exposition import generate_latest
    from prometheus_client.registry import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(seen, resident_bytes))
    return bytes(generate_latest(registry))


class _Snapshot:
    """A collector of what was seen at one moment: a registry is made for each answer."""

    def __init__(self, seen: EngineSnapshot, resident_bytes: int) -> None:
        self._seen = seen
        self._resident_bytes = resident_bytes

    def collect(self) -> Iterator[Metric]:
        """Every metric."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        for name, help_text, value in self._gauges():
            yield GaugeMetricFamily(name, help_text, value=value)
        for name, help_text, value in self._counters():
            yield CounterMetricFamily(name, help_text, value=value)
        ended = CounterMetricFamily(
            "ondol_replies", "Replies that ended, by the reason", labels=["finish_reason"]
        )
        for reason, count in self._seen.ended.items():
            ended.add_metric([reason.value], count)
        yield ended
        yield self._ttft()
        if self._seen.model is not None:
            yield self._model(self._seen.model)

    def _gauges(self) -> Iterator[tuple[str, str, float]]:
        seen = self._seen
        yield "ondol_model_ready", "Whether the model is loaded", float(seen.phase is ModelPhase.READY)
        yield "ondol_replies_running", "Replies that are being read or written", len(seen.running)
        yield "ondol_replies_waiting", "Requests in the queue", seen.waiting
        yield "ondol_prefix_cache_bytes", "Keys and values kept for reuse", seen.prefix_cache_bytes
        yield "ondol_prefix_cache_capacity_bytes", "Bound of the prefix cache", seen.prefix_cache_capacity
        yield "ondol_process_resident_bytes", "Memory of the server process", self._resident_bytes
        if seen.model is not None and seen.plan is not None:
            yield from self._memory(seen.model, seen.plan)

    def _memory(self, model: ModelDescription, plan: MemoryPlan) -> Iterator[tuple[str, str, float]]:
        seen = self._seen
        yield "ondol_weights_bytes", "Weights of the model", model.weight_bytes
        yield "ondol_kv_used_bytes", "Keys and values of running replies", seen.kv_bytes(seen.kv_used_tokens)
        yield (
            "ondol_kv_promised_bytes",
            "Keys and values that running replies have or may still get",
            seen.kv_bytes(seen.kv_promised_tokens),
        )
        yield "ondol_kv_capacity_bytes", "Room for keys and values", seen.kv_bytes(plan.kv_tokens)
        yield "ondol_kv_bytes_per_token", "Keys and values of one token", model.kv_bytes_per_token
        yield "ondol_context_window_tokens", "Tokens that one chat may have", plan.window

    def _counters(self) -> Iterator[tuple[str, str, float]]:
        counts = self._seen.counts
        yield "ondol_prompt_tokens", "Tokens of the prompts that were begun", counts.prompt_tokens
        yield "ondol_cached_tokens", "Prompt tokens that were reused", counts.cached_tokens
        yield "ondol_prefill_tokens", "Prompt tokens that were computed", counts.prefill_tokens
        yield "ondol_prefill_seconds", "Time spent computing prompts", counts.prefill_s
        yield "ondol_completion_tokens", "Tokens written", counts.completion_tokens
        yield "ondol_decode_tokens", "Tokens written after the first of each reply", counts.decode_tokens
        yield "ondol_decode_steps", "Steps in which tokens were written", counts.decode_steps
        yield "ondol_writing_seconds", "Time of writing, summed over replies", counts.writing_s
        yield "ondol_busy_seconds", "Time in which anything was computed for replies", counts.busy_s
        yield (
            "ondol_prefix_cache_evicted_blocks",
            "Blocks that made room for others",
            self._seen.evicted_blocks,
        )

    def _ttft(self) -> Metric:
        from prometheus_client.metrics_core import HistogramMetricFamily

        counts = self._seen.counts
        ends = [*(str(bound) for bound in TTFT_BOUNDS_S), "+Inf"]
        return HistogramMetricFamily(
            "ondol_time_to_first_token_seconds",
            "From submitting a request to its first token",
            buckets=list(zip(ends, accumulate(counts.ttft_counts), strict=True)),
            sum_value=counts.ttft_s,
        )

    @staticmethod
    def _model(model: ModelDescription) -> Metric:
        from prometheus_client.metrics_core import InfoMetricFamily

        return InfoMetricFamily(
            "ondol_model",
            "What runs",
            value={"name": model.name, "backend": model.backend, "device": model.device},
        )
