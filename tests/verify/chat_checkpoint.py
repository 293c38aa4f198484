"""Whether a checkpoint's chats can be appended to: `chat_checkpoint.py DIRECTORY FAMILY`. Exit 0 when they can."""

from __future__ import annotations

import sys
from pathlib import Path

from t1cli.errors import T1Error
from t1cli.terminal.harness.chat.load import checkpoint_renderer
from t1cli.terminal.harness.chat.message import Message
from t1cli.terminal.harness.chat.pieces import Shield, encode_pieces
from t1cli.terminal.harness.chat.renderer import AppendOnlyRenderer

TURNS = 30
TEXTS = ("Zähle die Dateien.", "  9081 files\n\n\n== done ==\t", "def f(x):\n\treturn x**2  # ünï\r\n", "你好 👩‍👩‍👧 é")


def same_ids(renderer: AppendOnlyRenderer) -> tuple[int, int, bool]:
    """Ids of thirty turns, those that were encoded, and whether encoding the whole at once gives the same ids."""
    ids = renderer.whole([Message("system", TEXTS[0]), Message("user", TEXTS[1])], ())
    encoded = len(ids)
    for turn in range(TURNS):
        reply = (*renderer.tokenizer.encode(f"Turn {turn}. {TEXTS[turn % 4]}"), renderer.stop_ids[turn % 2])
        added = renderer.after(reply, [Message("user" if turn % 3 else "tool", TEXTS[(turn + 1) % 4])])
        ids, encoded = (*ids, *reply, *added), encoded + len(added)
    pieces = Shield(renderer.tokenizer.controls).pieces(renderer.tokenizer.decode(ids))
    return len(ids), encoded, tuple(encode_pieces(pieces, renderer.tokenizer)) == ids


def main(directory: Path, family: str) -> int:
    """Print what was found for both settings of thinking."""
    good = True
    for thinking in (False, True):
        renderer = checkpoint_renderer(directory, family=family, thinking=thinking)
        print(f"thinking {'on' if thinking else 'off'}: ", end="")
        if not isinstance(renderer, AppendOnlyRenderer):
            print(f"rendered as a whole: {renderer.remark}")
            good = False
            continue
        total, encoded, same = same_ids(renderer)
        print(f"appended as {renderer.dialect.name}, replies open with {renderer.opening!r}")
        print(f"  {TURNS} turns, {total:,} ids, {encoded:,} of them encoded, once each")
        print(f"  {'the same ids as' if same else 'OTHER IDS THAN'} the whole encoded at once")
        good = good and same
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
    except T1Error as error:
        sys.exit(f"{error.diagnostics[0].where}: {error.message}")
