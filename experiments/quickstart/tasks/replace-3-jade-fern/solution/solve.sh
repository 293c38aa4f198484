#!/bin/sh
set -e
sed -i s/fern/brick/g jade_fern.txt
sed -i s/plum/cactus/g falcon_robin.txt
sed -i s/cobalt/badge/g cliff_saffron.txt
