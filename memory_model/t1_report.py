"""What the T1 report says about memory, joined to the layouts that explain it. The layouts are our reading of the text.

The report gives totals only: logits of 29.8 and 14.9, peaks of 100.3 (OOM) and 81.8 at an 84k wall for CP 2 and CP 4,
and a crash with 90.56 GiB in use while 632 MiB were asked for in the critic's GatedDeltaNet forward on a 95 GiB card.
"""

from __future__ import annotations

from memory_model.calibration import Observation
from memory_model.device import Device
from memory_model.layout import Layout
from memory_model.models import model
from memory_model.workload import Experts, GdnForm, Loss, Recompute, Workload

MODEL = "Qwen3.5-122B-A10B"
CARD = Device("T1 report, 95 GiB", 95.0)
WALL_TOKENS = 86_016
"""84k, in units of 1,024."""
CRASH_TOKENS = 40_448
"""632 MiB is one bf16 buffer of a GatedDeltaNet layer's value width: 2 B x 8,192 x 40,448 tokens."""
CRASH_IN_USE_GIB = 90.56 + 632 / 1024

PRODUCTION = {cp: Layout(world=64, tp=2, pp=2, cp=cp, ep=16) for cp in (2, 4)}
CRASH_LAYOUT = Layout(world=32, tp=2, pp=2, cp=1, ep=16)


def workload(longest_sample_tokens: int, gdn_form: GdnForm) -> Workload:
    """The report's training step: full recomputation, its 6-byte logits, two roles offloaded in turn, even routing."""
    return Workload(
        max_tokens_per_gpu=8192,
        longest_sample_tokens=longest_sample_tokens,
        micro_batches=8,
        recompute=Recompute("uniform"),
        loss=Loss("t1_rl"),
        experts=Experts(imbalance=1.0),
        gdn_form=gdn_form,
        roles=("actor", "critic"),
    )


def observations() -> tuple[Observation, ...]:
    """The report's three totals as readings."""
    arch = model(MODEL)
    peaks = tuple(
        Observation(
            label=f"peak at the 84k wall, CP {cp}",
            instrument="device",
            gib=gib,
            arch=arch,
            layout=PRODUCTION[cp],
            workload=workload(WALL_TOKENS, "native_cp"),
            device=CARD,
        )
        for cp, gib in ((2, 100.3), (4, 81.8))
    )
    crash = Observation(
        label=f"crash of the 56-GPU layout, {CRASH_TOKENS:,} tokens",
        instrument="in_use",
        gib=CRASH_IN_USE_GIB,
        arch=arch,
        layout=CRASH_LAYOUT,
        workload=workload(CRASH_TOKENS, "slime"),
        device=CARD,
        role="critic",
        stage=0,
        phase="values forward",
    )
    return (*peaks, crash)
