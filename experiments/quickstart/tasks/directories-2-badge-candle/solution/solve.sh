#!/bin/sh
set -e
mkdir -p badge_candle/orchid
mkdir delta_river
