#!/bin/sh
set -e
sed -i s/garnet/lilac/g forest_lake.txt
