#!/bin/sh
set -e
echo aspen hazel >> fable_eagle.txt
echo ember acorn >> grape_pine.txt
echo drum >> brick_oak.txt
