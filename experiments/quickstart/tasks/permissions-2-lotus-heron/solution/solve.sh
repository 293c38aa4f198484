#!/bin/sh
set -e
chmod 440 lotus_heron.txt
chmod 700 orchid_drum.txt
