"""A whole trial's rows at once, as tests want them; the product adds turn by turn."""

from __future__ import annotations

from collections.abc import Sequence

from t1cli.terminal.trajectory.assemble import Assembler, RoutingUse, RowLabel
from t1cli.terminal.trajectory.row import TrainingRow, Turn
from t1cli.terminal.trajectory.text_space import TextSpace


def assemble(
    turns: Sequence[Turn], *, label: RowLabel, routing: RoutingUse, text: TextSpace | None = None
) -> tuple[TrainingRow, ...]:
    """The rows of one trial at once. Raises MissingRouting and WrongRouting."""
    assembler = Assembler(trial_id=label.trial_id, routing=routing, text=text)
    for turn in turns:
        assembler.add(turn)
    return assembler.rows(label)
