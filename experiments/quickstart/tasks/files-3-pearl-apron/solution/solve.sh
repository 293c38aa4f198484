#!/bin/sh
set -e
mv pearl_apron.txt brook_nectar.txt
rm barley_brook.txt
rm cabin_moss.txt
