#!/bin/sh
set -e
sed -i s/anchor/iris/g cactus_river.txt
sed -i s/basil/flame/g ridge_cotton.txt
