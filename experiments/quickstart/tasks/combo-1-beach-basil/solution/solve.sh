#!/bin/sh
set -e
mkdir beach_basil
echo birch drum > beach_basil/lantern.txt
