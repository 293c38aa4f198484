#!/bin/sh
set -e
mv ginger_heron.txt kettle_ginger.txt
