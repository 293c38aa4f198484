#!/bin/sh
set -e
chmod 750 onyx_lake.txt
chmod 440 meadow_heron.txt
