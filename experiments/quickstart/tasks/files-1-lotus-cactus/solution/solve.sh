#!/bin/sh
set -e
mv lotus_cactus.txt birch_nectar.txt
