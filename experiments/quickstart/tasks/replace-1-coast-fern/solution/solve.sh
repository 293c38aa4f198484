#!/bin/sh
set -e
sed -i s/crystal/apron/g coast_fern.txt
