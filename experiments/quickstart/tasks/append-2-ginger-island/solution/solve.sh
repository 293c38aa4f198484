#!/bin/sh
set -e
echo berry >> ginger_island.txt
echo clay ginger >> quartz_maple.txt
