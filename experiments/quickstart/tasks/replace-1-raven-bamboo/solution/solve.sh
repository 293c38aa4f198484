#!/bin/sh
set -e
sed -i s/clay/meadow/g raven_bamboo.txt
