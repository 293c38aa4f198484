#!/bin/sh
set -e
cp cotton_pine.txt river_robin.txt
mv jasmine_fig.txt reef_copper.txt
