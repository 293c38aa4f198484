#!/bin/sh
set -e
echo oak > maple_falcon.txt
echo ember melon > beach_nectar.txt
