#!/bin/sh
set -e
mv raven_pine.txt meadow_hazel.txt
rm raven_apron.txt
rm candle_iris.txt
