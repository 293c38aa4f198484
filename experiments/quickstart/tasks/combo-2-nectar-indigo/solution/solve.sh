#!/bin/sh
set -e
mkdir almond_jade
echo otter flame > almond_jade/meadow.txt
mkdir nectar_indigo
