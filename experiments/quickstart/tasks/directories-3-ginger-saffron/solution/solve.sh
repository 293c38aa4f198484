#!/bin/sh
set -e
mkdir -p ginger_saffron/hazel
mkdir nectar_clay
mkdir copper_cobalt
