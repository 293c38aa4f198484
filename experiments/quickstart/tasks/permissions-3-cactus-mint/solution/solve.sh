#!/bin/sh
set -e
chmod 640 cactus_mint.txt
chmod 600 bloom_jasmine.txt
chmod 700 drum_grape.txt
