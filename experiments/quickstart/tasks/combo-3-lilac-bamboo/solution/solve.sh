#!/bin/sh
set -e
mkdir clay_birch
echo ginger canyon > clay_birch/island.txt
grep plum lilac_bamboo.txt > plum_basil.txt
echo melon > river_comet.txt
