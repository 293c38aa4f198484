#!/bin/sh
set -e
echo aspen harbor >> island_lagoon.txt
echo coast indigo >> berry_cactus.txt
