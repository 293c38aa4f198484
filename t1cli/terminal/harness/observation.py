"""What the policy sees of a command: its output, its exit status when that is not 0, its time limit when it hit it."""

from __future__ import annotations

from t1cli.terminal.harness.chat_template import ChatTemplate, cut_middle
from t1cli.terminal.sandbox.sandbox import ExecResult


def observation_text(result: ExecResult, *, timeout_seconds: float) -> str:
    """The observation before it is cut to its token budget."""
    lines = [result.output.rstrip("\n")] if result.output.strip() else []
    if result.timed_out:
        lines.append(f"timed out after {timeout_seconds:.0f} s")
    elif result.exit_code:
        lines.append(f"exit code {result.exit_code}")
    return "\n".join(lines)


def fitted(text: str, *, template: ChatTemplate, max_tokens: int) -> str:
    """`text` cut in the middle to at most `max_tokens` of the template's ids."""
    return cut_middle(text, max_tokens=max_tokens, count_tokens=template.count_tokens)
