#!/bin/sh
set -e
cp apple_jasmine.txt hazel_cabin.txt
rm quartz_cactus.txt
