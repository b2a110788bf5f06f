"""Short texts for people that the server writes: progress, days, what runs."""

from __future__ import annotations

from inference.memory import MemoryPlan
from inference.types import ModelDescription, Prefill, Queued

LOADING = "the model is still loading"


def day_label(age_days: int) -> str:
    """The heading for conversations of that age."""
    if age_days <= 0:
        return "Today"
    if age_days == 1:
        return "Yesterday"
    return "Previous 7 days" if age_days <= 7 else "Earlier"


def waiting_line(progress: Queued | Prefill | None) -> str | None:
    """What happens while a reply has no text yet."""
    if isinstance(progress, Queued):
        place = "next in line" if progress.position == 1 else f"{ordinal(progress.position)} in line"
        if progress.loading:
            return LOADING if progress.position == 1 else f"{LOADING}, {place}"
        return place if progress.eta_s is None else f"{place}, about {progress.eta_s:.0f} s"
    if isinstance(progress, Prefill):
        warm = f", {progress.cached:,} warm" if progress.cached else ""
        return f"reading {progress.done:,} of {progress.total:,} tokens{warm}"
    return None


THINKING = "Thinking…"


def thought_words(seconds: float | None) -> str:
    """What the reasoning of a reply is folded under; None where nobody measured it."""
    if seconds is None:
        return "Thought"
    if seconds < 60:
        return f"Thought for {seconds:.1f} s"
    return f"Thought for {seconds // 60:.0f} min {seconds % 60:.0f} s"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th …"""
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def runs_in_words(description: ModelDescription, plan: MemoryPlan) -> str:
    """What runs and how much fits, in a few sentences."""
    memory = f"{description.weight_bytes / 2**20:,.0f} MiB of weights"
    kv = f"{description.kv_bytes_per_token / 1024:,.0f} KiB of keys and values per token"
    device = description.device if description.device != "cpu" else f"CPU, {description.threads} threads"
    return (
        f"{description.parameters / 1e6:,.0f} million parameters. {description.quantization}. "
        f"{description.backend} on {device}, computing in {description.compute_dtype}. "
        f"{memory}, {kv}, a window of {plan.window:,} tokens. {at_once_in_words(plan)}."
    )


def at_once_in_words(plan: MemoryPlan) -> str:
    """How many replies the free memory holds side by side."""
    count = plan.max_sequences
    replies = "One reply at a time" if count == 1 else f"Up to {count} replies at once"
    return f"{replies}, with room for {plan.kv_tokens:,} tokens together"
