#!/bin/sh
set -e
echo drum > pearl_acorn.txt
echo drum harbor > bamboo_lagoon.txt
