#!/bin/sh
set -e
grep opal marble_berry.txt > flame_honey.txt
