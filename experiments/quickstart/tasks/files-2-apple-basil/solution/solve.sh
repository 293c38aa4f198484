#!/bin/sh
set -e
cp apple_basil.txt quartz_lotus.txt
rm copper_coast.txt
