#!/bin/sh
set -e
mkdir otter_acorn
echo plum cobalt > otter_acorn/bamboo.txt
