#!/bin/sh
set -e
mkdir quartz_anchor
echo brick > quartz_anchor/pine.txt
chmod 600 mint_reef.txt
sed -i s/mint/canyon/g cobalt_crane.txt
