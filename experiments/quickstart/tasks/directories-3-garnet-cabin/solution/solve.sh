#!/bin/sh
set -e
mkdir garnet_cabin
mkdir ember_lantern
mkdir cherry_desert
