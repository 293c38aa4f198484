#!/bin/sh
set -e
tail -n 4 apple_lilac.txt > cabin_cotton.txt
