#!/bin/sh
set -e
mkdir desert_forest
echo cabin > desert_forest/oak.txt
wc -l < cedar_almond.txt > comet_flint.txt
