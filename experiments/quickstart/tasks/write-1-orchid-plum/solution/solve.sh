#!/bin/sh
set -e
echo cabin iris > orchid_plum.txt
