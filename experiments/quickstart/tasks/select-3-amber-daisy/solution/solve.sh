#!/bin/sh
set -e
wc -l < amber_daisy.txt > iris_bloom.txt
sort ember_flint.txt > meadow_apron.txt
head -n 2 garnet_moss.txt > desert_almond.txt
