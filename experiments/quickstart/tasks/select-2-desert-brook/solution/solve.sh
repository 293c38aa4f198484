#!/bin/sh
set -e
sort desert_brook.txt > ginger_desert.txt
tail -n 2 clay_island.txt > flame_onyx.txt
