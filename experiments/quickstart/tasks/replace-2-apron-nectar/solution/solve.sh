#!/bin/sh
set -e
sed -i s/berry/quartz/g apron_nectar.txt
sed -i s/clover/badge/g quartz_pine.txt
