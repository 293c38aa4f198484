"""The shell scripts that make a sandbox of any machine that can run a command: POSIX sh, and programs of any image.

A Harbor environment promises little about a command's time limit, about background jobs that hold its output open, and
about an answer that gets lost on the way. So a command is started once under a number, in a session of its own and with
its output in a file, and is then asked about until it has ended. Every script may be repeated with the same arguments.
Each answers with lines that begin with `t1:`.
"""

from __future__ import annotations

from typing import Final

MARKER: Final = "T1_SANDBOX_MARKER"
"""Environment variable that every process of an agent inherits."""

KEPT_BYTES: Final = 64 * 1024
"""Of a command's output: the first and the last of it."""

NEEDED: Final = ("setsid", "tar", "base64", "head", "tail", "wc", "tr", "grep", "readlink", "sleep")
"""Programs that an image must have, beside sh and those for files."""

_LOOK = """
look() {  # state and parent of a process; a name cannot pretend to be either
  state= parent=
  while read -r key value rest; do
    case $key in State:) state=$value ;; PPid:) parent=$value; break ;; esac
  done <"/proc/$1/status"
}
start_of() {  # clock ticks since boot; nonsense for a process whose name has a line break
  IFS= read -r line <"/proc/$1/stat"
  set -- ${line##*) }
  start=${20-}
}
"""

PREPARE: Final = f"""
control=$1 uid=$2 gid=$3 image=$4 home=$5
{_LOOK}
missing=
for name in {" ".join(NEEDED)}; do command -v "$name" >/dev/null 2>&1 || missing="$missing $name"; done
[ -z "$missing" ] || {{ echo "t1:missing:$missing"; exit 0; }}
mkdir -p "$control" && chmod 1733 "$control" || exit 7
if [ ! -e /work ] && [ ! -L /work ]; then
  case $image in
    ""|/|/tmp|"$home") mkdir -m 755 /work && chown "$uid:$gid" /work ;;
    *) ln -s "$image" /work ;;
  esac || exit 7
fi
echo "t1:home:$(cd /work && pwd -P)"
echo "t1:namespace:$(readlink /proc/self/ns/pid)"
for entry in /proc/[0-9]*; do
  pid=${{entry#/proc/}}
  {{ start_of "$pid"; }} 2>/dev/null && echo "t1:process:$pid:$start"
done
echo "t1:prepared"
"""
"""Make /work (the image's own working directory where it has one) and say what was there before any command.

`image` and `home` are the working directory and the home of commands.
"""

_REPORT = f"""
report() {{
  size=$(wc -c <"$place/output")
  echo "t1:$1:$2:$((size))"
  head -c {KEPT_BYTES} "$place/output" | base64
  echo "t1:tail"
  [ "$size" -le {KEPT_BYTES} ] || tail -c {KEPT_BYTES} "$place/output" | base64
  echo "t1:end"
}}
"""

_TOLD: Final = """
told() {  # a number that is part of a name: a full disk still has room for names
  found=
  for name in "$place/$1".*; do [ ! -e "$name" ] || found=${name##*.}; done
}
"""

RUN: Final = f"""
control=$1 number=$2 hundredths=$3 cwd=$4 command=$5 file=$6 marker=$7 before=$8
place=$control/$number
{_REPORT}
{_TOLD}
[ -z "$file" ] || command=". $file"
if mkdir "$place" 2>/dev/null; then
  [ -z "$before" ] || rm -rf "$control/$before"
  shell=sh; command -v bash >/dev/null 2>&1 && shell=bash
  {MARKER}=$marker setsid "$shell" -c '
    : >"$1/pid.$$"
    (cd -- "$2" && eval "$3")
    : >"$1/ended.$?"
  ' sh "$place" "$cwd" "$command" >"$place/output" 2>&1 </dev/null &
fi
[ -d "$place" ] || {{ echo "t1:refused"; exit 0; }}
spent=0 nap=1
while :; do
  told ended; [ -z "$found" ] || {{ report done "$found"; exit 0; }}
  told pid; pid=$found
  if [ -n "$pid" ] && [ ! -d "/proc/$pid" ]; then
    told ended; [ -n "$found" ] || {{ report done 137; exit 0; }}
    continue
  fi
  [ -n "$pid" ] || [ "$spent" -lt 1000 ] || {{ echo "t1:lost"; exit 0; }}
  [ "$spent" -lt "$hundredths" ] || {{ report running 0; exit 0; }}
  case $nap in [1-9]) padded=0$nap ;; *) padded=$nap ;; esac
  sleep "0.$padded" 2>/dev/null || {{ sleep 1; nap=100; }}
  spent=$((spent + nap))
  case $nap in 1) nap=2 ;; 2) nap=5 ;; 5) nap=10 ;; 10) nap=20 ;; *) nap=40 ;; esac
done
"""
"""Start a command unless its number has been started, wait at most `hundredths` of a second, say what it wrote.

A process that is gone without a status was killed: 137. Numbers are unguessable: nobody can have been there before.
`file` names a file with a command too long for an argument.
"""

KILL: Final = f"""
control=$1 number=$2
place=$control/$number
{_TOLD}
# A start that is still on its way finds its number taken.
mkdir "$place" 2>/dev/null && {{ echo "t1:killed"; exit 0; }}
for nap in 1 2 3 4 5 6 7 8 9 10; do told pid; [ -z "$found" ] || break; sleep 0.1 2>/dev/null || sleep 1; done
pid=$found
told ended
[ -n "$found" ] || [ -z "$pid" ] || kill -9 "-$pid" 2>/dev/null
echo "t1:killed"
"""
"""End a command's session that has not ended by itself; jobs of earlier commands stay."""

END: Final = f"""
baseline=$1 marker=$2 shared=$3
{_LOOK}
mine=" " pid=$$
while [ "${{pid:-0}}" -gt 1 ]; do mine="$mine$pid "; look "$pid" || break; pid=$parent; done
ended=" " count=0 pass=0
while [ "$pass" -lt 30 ]; do
  again=0
  for entry in /proc/[0-9]*; do
    pid=${{entry#/proc/}}
    [ "$pid" != 1 ] || continue
    case $mine in *" $pid "*) continue ;; esac
    {{ look "$pid"; }} 2>/dev/null || continue
    case $state in Z|X|"") continue ;; esac
    if [ "$shared" = 1 ]; then
      tr '\\0' '\\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "{MARKER}=$marker" || continue
    else
      {{ start_of "$pid"; }} 2>/dev/null || continue
      case $baseline in *" $pid:$start "*) continue ;; esac
    fi
    kill -9 "$pid" 2>/dev/null
    again=1
    case $ended in *" $pid "*) ;; *) ended="$ended$pid "; count=$((count + 1)) ;; esac
  done
  [ "$again" = 1 ] || {{ echo "t1:ended:$count"; exit 0; }}
  sleep 0.05 2>/dev/null || sleep 1
  pass=$((pass + 1))
done
echo "t1:alive"
"""
"""Kill every process that was not there before the first command and does not lead to this one.

Where the machine's process ids are shared with something else (`shared`), only what carries the marker.
"""

READ: Final = f"""
rest=${{1#/}} max=$2 copy=$3 at=
while [ -n "$rest" ]; do
  part=${{rest%%/*}}
  case $rest in */*) rest=${{rest#*/}} ;; *) rest= ;; esac
  at=$at/$part
  [ ! -L "$at" ] || {{ echo "t1:absent"; exit 0; }}
done
[ -f "$at" ] || {{ echo "t1:absent"; exit 0; }}
size=$(wc -c <"$at") || {{ echo "t1:unreadable"; exit 0; }}
if [ "$size" -gt "$max" ]; then
  echo "t1:large"
elif [ "$size" -le {KEPT_BYTES} ]; then
  echo "t1:file"
  head -c {KEPT_BYTES} "$at" | base64
  echo "t1:end"
else
  head -c "$max" "$at" >"$copy" && echo "t1:copied"
fi
"""
"""A regular file's content, no link followed: in the answer, or copied to `copy` when it is long."""

_PLACES = """
aside() { mv -f -- "$1" "${1%/*}/.replaced-$token-${1##*/}"; }
planted() { [ -L "$1" ] || { [ -e "$1" ] && [ ! -d "$1" ]; }; }
own() { chmod 755 "$1" && chown "$uid:$gid" "$1"; }
enter() {  # every part of the path a real directory; a link or a file where one belongs was planted
  rest=${1#/} at=
  while [ -n "$rest" ]; do
    part=${rest%%/*}
    case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
    at=$at/$part
    if planted "$at"; then aside "$at" || exit 7; fi
    [ -d "$at" ] || mkdir -m 755 "$at" || exit 7
  done
}
reset() {
  case ${1#/} in */*) enter "${1%/*}" ;; esac
  if [ -e "$1" ] || [ -L "$1" ]; then
    # A mount cannot be renamed: its entries are.
    aside "$1" 2>/dev/null || for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
      case ${entry##*/} in .replaced-*) continue ;; esac
      if [ -e "$entry" ] || [ -L "$entry" ]; then aside "$entry" || exit 7; fi
    done
  fi
  [ -d "$1" ] || mkdir "$1" || exit 7
  own "$1" && chmod 777 "$1" || exit 7
}
"""

RESET: Final = f"""
path=$1 uid=$2 gid=$3 token=$4
{_PLACES}
reset "$path"
echo "t1:reset"
"""
"""Make a path an empty directory of the commands' user, whatever was there."""

PUT: Final = f"""
control=$1 archive=$2 target=$3 readonly=$4 uid=$5 gid=$6 token=$7
{_PLACES}
merge() (
  for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$entry" ] || continue
    to=$2/${{entry##*/}}
    if [ -d "$entry" ]; then
      if planted "$to"; then aside "$to" || exit 7; fi
      [ -d "$to" ] || {{ mkdir "$to" && own "$to"; }} || exit 7
      merge "$entry" "$to" || exit 7
    else
      if [ -d "$to" ] && [ ! -L "$to" ]; then aside "$to" || exit 7; else rm -f -- "$to"; fi
      cp -p -- "$entry" "$to" && chown "$uid:$gid" "$to" || exit 7
    fi
  done
)
stage=$control/put-$token
[ ! -e "$stage.placed" ] || {{ echo "t1:placed"; exit 0; }}
rm -rf "$stage"
mkdir -m 700 "$stage" && tar -xf "$archive" -C "$stage" || exit 7
if [ "$readonly" = 1 ]; then
  uid=0 gid=0
  reset "$target"
  merge "$stage" "$target" || exit 7
  chmod -R a-w "$target" && chmod 555 "$target" || exit 7
else
  enter "$target"
  merge "$stage" "$target" || exit 7
fi
: >"$stage.placed"
rm -rf "$stage" "$archive"
echo "t1:placed"
"""
"""Unpack an archive at a path: into what is there, or read-only in place of it."""
