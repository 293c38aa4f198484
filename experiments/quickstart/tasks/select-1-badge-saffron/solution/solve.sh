#!/bin/sh
set -e
tail -n 2 badge_saffron.txt > opal_pine.txt
