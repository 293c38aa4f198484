#!/bin/sh
set -e
sort opal_linen.txt > oak_plum.txt
grep clay beach_forest.txt > bloom_apple.txt
