#!/bin/sh
set -e
head -n 3 island_fern.txt > lemon_cabin.txt
grep comet raven_jade.txt > beach_pine.txt
tail -n 3 glacier_lilac.txt > mint_raven.txt
