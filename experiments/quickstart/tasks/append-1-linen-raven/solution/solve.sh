#!/bin/sh
set -e
echo eagle >> linen_raven.txt
