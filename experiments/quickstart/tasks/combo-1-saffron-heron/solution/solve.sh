#!/bin/sh
set -e
mkdir saffron_heron
echo jasmine ginger > saffron_heron/desert.txt
