#!/bin/sh
set -e
chmod 750 candle_bamboo.txt
chmod 750 linen_birch.txt
chmod 444 meadow_onyx.txt
