#!/bin/sh
set -e
mkdir -p cherry_clay/cherry
mkdir -p jade_bamboo/beach
