#!/bin/sh
set -e
sed -i s/moss/ivory/g garnet_grape.txt
sed -i s/kettle/pond/g coast_jasmine.txt
sed -i s/lagoon/aspen/g cabin_saffron.txt
